#include "tensor/file_parts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <unordered_set>

namespace tsc::tensor {

namespace {

// In name order: an ordered one is searched from end to end for each name.
using Json = nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000; // bytes; the format's own limit
constexpr int kMaxDepth = 3;                 // header / tensor / list of numbers

struct Entry {
  std::string name;
  DType dtype;
  std::vector<int64_t> sizes;
  uint64_t begin, end; // bytes from the start of the data
};

uint64_t header_length(std::string_view bytes) {
  uint64_t length = 0;
  for (size_t i = 0; i < 8; ++i)
    length |= uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  return length;
}

[[noreturn]] void fail(const std::string &message, const std::string &place) {
  fail_file("TSC-T031", "the .safetensors header is malformed: " + message, place,
            "write the file again; it may be damaged");
}

/// What a parsed object no longer shows: names that stand twice, and depth. (The parser's callback
/// would look through all names after each.)
class HeaderCheck {
public:
  explicit HeaderCheck(const std::string &path) : path_(path) {}
  bool start_object(size_t) { return enter(); }
  bool end_object() { return leave(); }
  bool start_array(size_t) { return enter(); }
  bool end_array() { return leave(); }
  bool key(std::string &name) {
    if (depth_ == 1 && !names_.insert(name).second)
      fail("the tensor '" + name + "' stands twice", path_);
    return true;
  }
  bool null() { return true; }
  bool boolean(bool) { return true; }
  bool number_integer(int64_t) { return true; }
  bool number_unsigned(uint64_t) { return true; }
  bool number_float(double, const std::string &) { return true; }
  bool string(std::string &) { return true; }
  bool binary(Json::binary_t &) { return true; }
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &) {
    return false; // reported with the object
  }

private:
  const std::string &path_;
  std::unordered_set<std::string> names_; // only looked up
  int depth_ = 0;
  bool enter() {
    if (++depth_ > kMaxDepth)
      fail("it is nested too deep", path_);
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
};

Json parse_header(std::string_view text, const std::string &path) {
  HeaderCheck check(path);
  Json::sax_parse(text.begin(), text.end(), &check);
  Json header = Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!header.is_object())
    fail("it is no JSON object", path);
  return header;
}

Entry read_entry(const std::string &name, const Json &value, uint64_t data_size,
                 const std::string &path) {
  std::string place = path + ": " + name;
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") ||
      !value.contains("shape") || !value.contains("data_offsets"))
    fail("a tensor needs exactly dtype, shape and data_offsets", place);
  const Json &type = value["dtype"], &shape = value["shape"], &offsets = value["data_offsets"];
  if (!type.is_string() || !shape.is_array() || !offsets.is_array() || offsets.size() != 2)
    fail("dtype, shape or data_offsets has the wrong type", place);
  std::optional<DType> dtype = parse_safetensors_dtype(type.get<std::string>());
  if (!dtype)
    fail_file("TSC-T032", "the dtype '" + type.get<std::string>() + "' is not supported", place, "",
              support::ExitCode::unsupported);
  Entry entry{name, *dtype, {}, 0, 0};
  for (const Json &size : shape) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() > INT64_MAX)
      fail("a size is no integer from 0 to 2^63 - 1", place);
    entry.sizes.push_back(size.get<int64_t>());
  }
  if (!offsets[0].is_number_unsigned() || !offsets[1].is_number_unsigned())
    fail("an offset is no unsigned integer", place);
  entry.begin = offsets[0].get<uint64_t>();
  entry.end = offsets[1].get<uint64_t>();
  std::optional<uint64_t> bytes = tensor_bytes(entry.dtype, entry.sizes);
  if (!bytes || entry.begin > entry.end || entry.end - entry.begin != *bytes)
    fail("the offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
             "] contradict the shape",
         place);
  if (entry.end > data_size)
    fail_file("TSC-T021",
              "the tensor ends at byte " + std::to_string(entry.end) +
                  " of the data, the file has " + std::to_string(data_size),
              place, "copy the file again; it is not complete");
  return entry;
}

} // namespace

bool is_safetensors(std::string_view bytes) {
  return bytes.size() >= 9 && header_length(bytes) <= kMaxHeader && bytes[8] == '{';
}

TensorMap parse_safetensors(const Payload &payload, const std::string &path) {
  std::string_view bytes = payload.text();
  uint64_t length = header_length(bytes);
  if (length > bytes.size() - 8)
    fail_file("TSC-T021",
              "the header claims " + std::to_string(length) + " bytes, the file has " +
                  std::to_string(bytes.size() - 8),
              path, "copy the file again; it is not complete");
  uint64_t data_start = 8 + length;
  Json header = parse_header(bytes.substr(8, static_cast<size_t>(length)), path);
  std::vector<Entry> entries;
  for (const auto &item : header.items())
    if (item.key() != "__metadata__")
      entries.push_back(read_entry(item.key(), item.value(), bytes.size() - data_start, path));
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Entry &entry : entries)
    if (entry.begin != entry.end)
      ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      fail("two tensors overlap at byte " + std::to_string(ranges[i].first) + " of the data", path);
  TensorMap tensors;
  for (Entry &entry : entries)
    tensors.emplace(entry.name, view_payload(payload, data_start + entry.begin, entry.dtype,
                                             std::move(entry.sizes), false));
  return tensors;
}

void write_safetensors(const std::string &path, const TensorMap &tensors) {
  const auto quoted = [](const std::string &name) {
    return Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  std::string text = "{";
  uint64_t offset = 0;
  for (const auto &entry : tensors) {
    uint64_t end = offset + entry.second.size_in_bytes();
    text += (text.size() > 1 ? "," : "") + quoted(entry.first) + ":{\"dtype\":\"" +
            std::string(safetensors_name(entry.second.dtype())) +
            "\",\"shape\":" + Json(entry.second.sizes()).dump() + ",\"data_offsets\":[" +
            std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  text += "}";
  text.resize((text.size() + 7) / 8 * 8, ' '); // the data begins at a multiple of 8
  OutputFile file(path);
  char length[8];
  for (size_t i = 0; i < 8; ++i)
    length[i] = static_cast<char>(uint64_t{text.size()} >> (8 * i) & 0xff);
  file.write(length, sizeof length);
  file.write(text.data(), text.size());
  for (const auto &entry : tensors) {
    HostTensor tensor = entry.second.contiguous();
    file.write(tensor.data(), tensor.size_in_bytes());
  }
  file.close();
}

} // namespace tsc::tensor
