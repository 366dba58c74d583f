#include "driver/lock.h"

#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <iterator>
#include <set>

namespace tsc::driver {
namespace {

using nlohmann::json;
using support::UserError;

constexpr const char *kFormat = "tsc-lock";
constexpr int kVersion = 1;

[[noreturn]] void refuse(const std::string &file, const std::string &place,
                         const std::string &why) {
  throw UserError(support::ExitCode::bad_input,
                  {.code = "TSC-C020",
                   .message = "this is no lock of kernels: " + why,
                   .file = file,
                   .place = place,
                   .next_step = "write it again with tsc tune, or compile without --lock"});
}

class Reader {
public:
  explicit Reader(const std::string &file) : file_(file) {}

  Lock read(const std::string &text) const {
    const json object = json::parse(text, nullptr, false);
    if (object.is_discarded() || !object.is_object())
      refuse(file_, "", "it is not a JSON object");
    if (word(object, "format", "") != kFormat)
      refuse(file_, "/format", "its format is not " + std::string(kFormat));
    const auto version = object.find("version");
    if (version == object.end() || *version != kVersion)
      refuse(file_, "/version", "its version is not " + std::to_string(kVersion));
    Lock lock;
    lock.device = word(object, "device", "");
    lock.arch = word(object, "arch", "");
    const auto kernels = object.find("kernels");
    if (kernels == object.end() || !kernels->is_array())
      refuse(file_, "/kernels", "there is no list of kernels");
    std::set<std::string> keys;
    for (size_t i = 0; i < kernels->size(); ++i) {
      const std::string place = "/kernels/" + std::to_string(i);
      lock.kernels.push_back(kernel((*kernels)[i], place));
      if (!keys.insert(lock.kernels.back().key).second)
        refuse(file_, place + "/key", "a kernel of this key was there before");
    }
    return lock;
  }

private:
  const std::string &file_;

  LockedKernel kernel(const json &row, const std::string &place) const {
    if (!row.is_object())
      refuse(file_, place, "a kernel is not an object");
    LockedKernel kernel;
    kernel.key = word(row, "key", place);
    kernel.kernel = word(row, "kernel", place);
    kernel.plan = word(row, "plan", place);
    const std::string choice = word(row, "choice", place);
    const auto parsed = codegen::parse_choice(choice);
    if (!parsed)
      refuse(file_, place + "/choice", "'" + choice + "' is no choice");
    kernel.choice = *parsed;
    kernel.planned_nanoseconds = number(row, "planned_ns", place);
    kernel.expected_nanoseconds = number(row, "expected_ns", place);
    return kernel;
  }
  std::string word(const json &row, const char *name, const std::string &place) const {
    const auto found = row.find(name);
    if (found == row.end() || !found->is_string())
      refuse(file_, place + "/" + name, "there is no text \"" + std::string(name) + "\"");
    return found->get<std::string>();
  }
  double number(const json &row, const char *name, const std::string &place) const {
    const auto found = row.find(name);
    if (found == row.end() || !found->is_number() || !(found->get<double>() >= 0))
      refuse(file_, place + "/" + name, "there is no time \"" + std::string(name) + "\"");
    return found->get<double>();
  }
};

} // namespace

std::string to_text(const Lock &lock) {
  std::string text = "{\n\"format\": " + json(kFormat).dump() +
                     ",\n\"version\": " + std::to_string(kVersion) +
                     ",\n\"device\": " + json(lock.device).dump() +
                     ",\n\"arch\": " + json(lock.arch).dump() + ",\n\"kernels\": [";
  for (size_t i = 0; i < lock.kernels.size(); ++i) {
    const LockedKernel &kernel = lock.kernels[i];
    nlohmann::ordered_json row;
    row["key"] = kernel.key;
    row["kernel"] = kernel.kernel;
    row["choice"] = codegen::to_text(kernel.choice);
    row["planned_ns"] = std::llround(kernel.planned_nanoseconds);
    row["expected_ns"] = std::llround(kernel.expected_nanoseconds);
    row["plan"] = kernel.plan;
    text += (i == 0 ? "\n" : ",\n") + row.dump();
  }
  return text + "\n]\n}\n";
}

Lock parse_lock(const std::string &text, const std::string &file) {
  return Reader(file).read(text);
}

Lock read_lock(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    refuse(path, "", "it cannot be read");
  return parse_lock(std::string(std::istreambuf_iterator<char>(file), {}), path);
}

} // namespace tsc::driver
