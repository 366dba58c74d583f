#include "tensor/file_parts.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <optional>

namespace tsc::tensor {

namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000; // bytes; the format's own limit
constexpr size_t kDataAlignment = 64;        // bytes; of a file's first tensor
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

/// A tensor of the header as it is written; what is wrong with it is said when all of it was read.
struct Record {
  std::string name;
  size_t keys = 0; // all of them, and whether each of the three is there with its type
  bool is_object = false, has_dtype = false, has_shape = false, has_offsets = false;
  bool dtype_is_text = false, shape_is_list = false, offsets_are_list = false;
  std::string dtype;
  std::vector<int64_t> sizes;
  bool sizes_fit = true; // integers from 0 to 2^63 - 1
  size_t offset_count = 0;
  uint64_t offsets[2] = {0, 0};
  bool offsets_are_unsigned = true;
};

/// Reads the header in one pass: of a file of many tensors most of the time goes into this.
class HeaderReader {
public:
  explicit HeaderReader(const std::string &path) : path_(path) {}
  std::vector<Record> take() { return std::move(records_); }
  bool is_object() const { return is_object_; }

  bool start_object(size_t) {
    if (depth_ == 0)
      is_object_ = true;
    value(Kind::object);
    return enter();
  }
  bool end_object() { return leave(); }
  bool start_array(size_t) {
    value(Kind::list);
    return enter();
  }
  bool end_array() { return leave(); }
  bool key(std::string &name) {
    if (depth_ == 1) {
      ignored_ = name == "__metadata__";
      if (!ignored_) {
        records_.emplace_back();
        records_.back().name = name;
      }
    } else if (depth_ == 2 && !ignored_ && !records_.empty()) {
      Record &record = records_.back();
      ++record.keys;
      field_ = name == "dtype"          ? Field::dtype
               : name == "shape"        ? Field::shape
               : name == "data_offsets" ? Field::offsets
                                        : Field::other;
      record.has_dtype |= field_ == Field::dtype;
      record.has_shape |= field_ == Field::shape;
      record.has_offsets |= field_ == Field::offsets;
    }
    return true;
  }
  bool null() { return value(Kind::other); }
  bool boolean(bool) { return value(Kind::other); }
  bool number_integer(int64_t) { return value(Kind::other); } // a negative one
  bool number_unsigned(uint64_t number) { return value(Kind::number, number); }
  bool number_float(double, const std::string &) { return value(Kind::other); }
  bool string(std::string &text) {
    if (depth_ == 2 && !ignored_ && !records_.empty() && field_ == Field::dtype)
      records_.back().dtype = text;
    return value(Kind::text);
  }
  bool binary(Json::binary_t &) { return value(Kind::other); }
  bool parse_error(size_t, const std::string &, const nlohmann::detail::exception &) {
    is_object_ = false;
    return false;
  }

private:
  enum class Kind : unsigned char { object, list, number, text, other };
  enum class Field : unsigned char { dtype, shape, offsets, other };
  const std::string &path_;
  std::vector<Record> records_;
  Field field_ = Field::other;
  bool is_object_ = false;
  bool ignored_ = false; // inside of __metadata__
  int depth_ = 0;

  /// A value begins at the present depth.
  bool value(Kind kind, uint64_t number = 0) {
    if (ignored_ || depth_ == 0 || records_.empty())
      return true;
    Record &record = records_.back();
    if (depth_ == 1) {
      record.is_object = kind == Kind::object;
    } else if (depth_ == 2) {
      if (field_ == Field::dtype)
        record.dtype_is_text = kind == Kind::text;
      else if (field_ == Field::shape)
        record.shape_is_list = kind == Kind::list;
      else if (field_ == Field::offsets)
        record.offsets_are_list = kind == Kind::list;
    } else if (field_ == Field::shape) {
      record.sizes_fit &= kind == Kind::number && number <= uint64_t{INT64_MAX};
      record.sizes.push_back(static_cast<int64_t>(number));
    } else if (field_ == Field::offsets) {
      record.offsets_are_unsigned &= kind == Kind::number;
      if (record.offset_count < 2)
        record.offsets[record.offset_count] = number;
      ++record.offset_count;
    }
    return true;
  }
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

/// In name order.
std::vector<Record> parse_header(std::string_view text, const std::string &path) {
  HeaderReader reader(path);
  const bool complete = Json::sax_parse(text.begin(), text.end(), &reader);
  std::vector<Record> records = reader.take();
  std::stable_sort(records.begin(), records.end(),
                   [](const Record &a, const Record &b) { return a.name < b.name; });
  for (size_t i = 1; i < records.size(); ++i)
    if (records[i].name == records[i - 1].name)
      fail("the tensor '" + records[i].name + "' stands twice", path);
  if (!complete || !reader.is_object())
    fail("it is no JSON object", path);
  return records;
}

Entry read_entry(Record &record, uint64_t data_size, const std::string &path) {
  const auto place = [&] { return path + ": " + record.name; };
  if (!record.is_object || record.keys != 3 || !record.has_dtype || !record.has_shape ||
      !record.has_offsets)
    fail("a tensor needs exactly dtype, shape and data_offsets", place());
  if (!record.dtype_is_text || !record.shape_is_list || !record.offsets_are_list ||
      record.offset_count != 2)
    fail("dtype, shape or data_offsets has the wrong type", place());
  const std::optional<DType> dtype = parse_safetensors_dtype(record.dtype);
  if (!dtype)
    fail_file("TSC-T032", "the dtype '" + record.dtype + "' is not supported", place(), "",
              support::ExitCode::unsupported);
  if (!record.sizes_fit)
    fail("a size is no integer from 0 to 2^63 - 1", place());
  if (!record.offsets_are_unsigned)
    fail("an offset is no unsigned integer", place());
  Entry entry{std::move(record.name), *dtype, std::move(record.sizes), record.offsets[0],
              record.offsets[1]};
  const std::string &name = entry.name;
  const std::optional<uint64_t> bytes = tensor_bytes(entry.dtype, entry.sizes);
  if (!bytes || entry.begin > entry.end || entry.end - entry.begin != *bytes)
    fail("the offsets [" + std::to_string(entry.begin) + ", " + std::to_string(entry.end) +
             "] contradict the shape",
         path + ": " + name);
  if (entry.end > data_size)
    fail_file("TSC-T021",
              "the tensor ends at byte " + std::to_string(entry.end) +
                  " of the data, the file has " + std::to_string(data_size),
              path + ": " + name, "copy the file again; it is not complete");
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
  std::vector<Record> records = parse_header(bytes.substr(8, static_cast<size_t>(length)), path);
  std::vector<Entry> entries;
  entries.reserve(records.size());
  for (Record &record : records)
    entries.push_back(read_entry(record, bytes.size() - data_start, path));
  std::vector<std::pair<uint64_t, uint64_t>> ranges;
  for (const Entry &entry : entries)
    if (entry.begin != entry.end)
      ranges.emplace_back(entry.begin, entry.end);
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (ranges[i].first < ranges[i - 1].second)
      fail("two tensors overlap at byte " + std::to_string(ranges[i].first) + " of the data", path);
  TensorMap tensors;
  for (Entry &entry : entries) // in name order
    tensors.emplace_hint(tensors.end(), std::move(entry.name),
                         view_payload(payload, data_start + entry.begin, entry.dtype,
                                      std::move(entry.sizes), false));
  return tensors;
}

std::vector<Payload> safetensors_parts(const TensorMap &tensors) {
  const auto quoted = [](const std::string &name) {
    return Json(name).dump(-1, ' ', false, Json::error_handler_t::replace);
  };
  // Tensors of whole 64 bytes first, then wide elements before narrow ones: as long as that lasts,
  // each begins where it can be used without a copy.
  std::vector<const TensorMap::value_type *> order;
  for (const auto &entry : tensors)
    order.push_back(&entry);
  const auto rank = [](const HostTensor &tensor) {
    return tensor.size_in_bytes() % kDataAlignment == 0 ? size_t{0}
                                                        : 16 - size_in_bytes(tensor.dtype());
  };
  std::stable_sort(order.begin(), order.end(),
                   [&](const auto *a, const auto *b) { return rank(a->second) < rank(b->second); });
  std::string text = "{";
  uint64_t offset = 0;
  for (const auto *entry : order) {
    uint64_t end = offset + entry->second.size_in_bytes();
    text += (text.size() > 1 ? "," : "") + quoted(entry->first) + ":{\"dtype\":\"" +
            std::string(safetensors_name(entry->second.dtype())) +
            "\",\"shape\":" + Json(entry->second.sizes()).dump() + ",\"data_offsets\":[" +
            std::to_string(offset) + "," + std::to_string(end) + "]}";
    offset = end;
  }
  text += "}";
  const size_t header = (8 + text.size() + kDataAlignment - 1) / kDataAlignment * kDataAlignment;
  text.resize(header - 8, ' ');
  std::string length(8, '\0');
  for (size_t i = 0; i < 8; ++i)
    length[i] = static_cast<char>(uint64_t{text.size()} >> (8 * i) & 0xff);
  const auto head = std::make_shared<std::string>(length + text);
  std::vector<Payload> parts = {
      {head, reinterpret_cast<const std::byte *>(head->data()), head->size()}};
  for (const auto *entry : order) {
    const auto tensor = std::make_shared<HostTensor>(entry->second.contiguous());
    parts.push_back({tensor, tensor->data(), tensor->size_in_bytes()});
  }
  return parts;
}

void write_safetensors(const std::string &path, const TensorMap &tensors) {
  OutputFile file(path);
  for (const Payload &part : safetensors_parts(tensors))
    file.write(part.data, part.size);
  file.close();
}

} // namespace tsc::tensor
