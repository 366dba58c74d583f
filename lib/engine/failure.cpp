#include "engine/failure.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tsc_engine {
namespace {

constexpr size_t kWords = 4;

void replace(std::string &text, const char *placeholder, const std::string &by) {
  for (size_t at = 0; (at = text.find(placeholder, at)) != std::string::npos; at += by.size())
    text.replace(at, std::strlen(placeholder), by);
}

/// As short as reads back the same; equal to what ir::failure_text writes.
std::string number_text(double number) {
  char text[32];
  for (int digits = 1; digits <= 17; ++digits) {
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    if (std::strtod(text, nullptr) == number)
      break;
  }
  return text;
}

template <class To, class From> To bits_of(From from) {
  To to;
  static_assert(sizeof to == sizeof from);
  std::memcpy(&to, &from, sizeof to);
  return to;
}

/// "index 7 of input 'ids' is not in [0, 5) (node embedding)"
std::string describe_value(const Assertion &assertion, int64_t value, int64_t extent) {
  std::string text = assertion.message;
  replace(text, "{value}", std::to_string(value));
  replace(text, "{size}", std::to_string(extent));
  replace(text, "{float32}",
          number_text(static_cast<double>(bits_of<float>(static_cast<uint32_t>(value)))));
  replace(text, "{float64}", number_text(bits_of<double>(value)));
  return describe({text.c_str(), assertion.node, assertion.source_line});
}

const Assertion &row(const Tables &tables, int64_t number) {
  if (number < 1 || static_cast<uint64_t>(number) > tables.assertions.count)
    throw Error(Status::internal, "assertion " + std::to_string(number) + " does not exist");
  return tables.assertions[static_cast<size_t>(number - 1)];
}

} // namespace

std::string describe(const Assertion &assertion) {
  std::string text = assertion.message;
  if (*assertion.node != '\0')
    text += std::string(" (node ") + assertion.node + ")";
  if (*assertion.source_line != '\0')
    text += std::string(" in ") + assertion.source_line;
  return text;
}

bool is_value_noted(Device &device, const char *memory, Stream stream) {
  int64_t number = 0;
  device.download(&number, memory + sizeof number, sizeof number, stream);
  device.synchronize(stream);
  return number != 0;
}

FailureWords::FailureWords(Device &device)
    : device_(&device), memory_(device.allocate(kWords * sizeof(int64_t))) {
  clear(nullptr);
  device.synchronize(nullptr); // the first run may be on another stream
}
FailureWords::~FailureWords() {
  if (memory_ != nullptr)
    device_->release(memory_);
}
FailureWords::FailureWords(FailureWords &&other) noexcept
    : device_(other.device_), memory_(std::exchange(other.memory_, nullptr)) {}
FailureWords &FailureWords::operator=(FailureWords &&other) noexcept {
  std::swap(device_, other.device_);
  std::swap(memory_, other.memory_);
  return *this;
}

void FailureWords::clear(Stream stream) {
  device_->fill(memory_, 0, kWords * sizeof(int64_t), stream);
}

void FailureWords::check(const Tables &tables, Stream stream) {
  if (memory_ == nullptr)
    return;
  int64_t words[kWords] = {};
  device_->download(words, memory_, sizeof words, stream);
  device_->synchronize(stream);
  if (words[0] == 0 && words[1] == 0)
    return;
  clear(stream);
  const std::string value =
      words[1] == 0 ? "" : describe_value(row(tables, words[1]), words[2], words[3]);
  if (words[0] == 0)
    throw Error(Status::assertion, value, "give values in that range");
  // One may be what the other comes from.
  throw Error(Status::assertion,
              describe(row(tables, words[0])) + (value.empty() ? "" : "\n  besides, " + value));
}

} // namespace tsc_engine
