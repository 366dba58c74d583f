#include "engine/weights_file.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tsc_engine {
namespace {

/// safetensors' own limit on the header.
constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxRank = 64;

struct NamedDType {
  const char *name;
  DType dtype;
};
constexpr NamedDType kDTypes[] = {{"BOOL", DType::boolean},
                                  {"U8", DType::u8},
                                  {"I8", DType::i8},
                                  {"I16", DType::i16},
                                  {"I32", DType::i32},
                                  {"I64", DType::i64},
                                  {"U16", DType::u16},
                                  {"U32", DType::u32},
                                  {"U64", DType::u64},
                                  {"F16", DType::f16},
                                  {"BF16", DType::bf16},
                                  {"F32", DType::f32},
                                  {"F64", DType::f64},
                                  {"F8_E4M3", DType::f8e4m3fn},
                                  {"F8_E5M2", DType::f8e5m2},
                                  {"F8_E4M3FNUZ", DType::f8e4m3fnuz},
                                  {"F8_E5M2FNUZ", DType::f8e5m2fnuz},
                                  {"F8_E8M0", DType::f8e8m0fnu}};

struct RawEntry {
  std::string dtype;
  std::vector<int64_t> sizes;
  std::vector<int64_t> offsets; // begin and end after the header
};

/// The header's JSON: an object of objects with strings and arrays of integers, no deeper.
class HeaderScanner {
public:
  HeaderScanner(const char *begin, const char *end) : at_(begin), begin_(begin), end_(end) {}

  /// Calls visit(name, entry) for every tensor.
  template <class Visit> void scan(const Visit &visit) {
    each_member([&](const std::string &name) {
      if (name == "__metadata__") {
        each_member([&](const std::string &) { string(); });
        return;
      }
      RawEntry entry;
      each_member([&](const std::string &key) {
        if (key == "dtype")
          entry.dtype = string();
        else if (key == "shape")
          entry.sizes = integers();
        else if (key == "data_offsets")
          entry.offsets = integers();
        else
          fail("an unknown key");
      });
      visit(name, entry);
    });
    space();
    if (at_ != end_)
      fail("text after the end");
  }

private:
  [[noreturn]] void fail(const char *what) const {
    throw Error(Status::bad_argument, std::string(what) + " at byte " +
                                          std::to_string(8 + (at_ - begin_)) + " of its header");
  }
  void space() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\n' || *at_ == '\t' || *at_ == '\r'))
      ++at_;
  }
  bool take(char c) {
    space();
    if (at_ == end_ || *at_ != c)
      return false;
    ++at_;
    return true;
  }
  void expect(char c, const char *what) {
    if (!take(c))
      fail(what);
  }
  template <class Visit> void each_member(const Visit &visit) {
    expect('{', "no object");
    if (take('}'))
      return;
    do {
      std::string key = string();
      expect(':', "no colon");
      visit(key);
    } while (take(','));
    expect('}', "an object that does not end");
  }
  std::vector<int64_t> integers() {
    std::vector<int64_t> result;
    expect('[', "no array");
    if (take(']'))
      return result;
    do {
      if (result.size() == kMaxRank)
        fail("too many dimensions");
      result.push_back(integer());
    } while (take(','));
    expect(']', "an array that does not end");
    return result;
  }
  int64_t integer() {
    space();
    int64_t value = 0;
    const char *first = at_;
    for (; at_ != end_ && *at_ >= '0' && *at_ <= '9'; ++at_)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, *at_ - '0', &value))
        fail("a number beyond 64 bits");
    if (at_ == first)
      fail("no number");
    return value;
  }
  std::string string() {
    expect('"', "no string");
    std::string result;
    while (at_ != end_ && *at_ != '"')
      if (*at_ == '\\')
        escape(result);
      else
        result += *at_++;
    if (at_ == end_)
      fail("a string that does not end");
    ++at_;
    return result;
  }
  void escape(std::string &result) {
    ++at_;
    if (at_ == end_)
      fail("a string that does not end");
    char c = *at_++;
    static const char kFrom[] = "\"\\/bfnrt";
    static const char kTo[] = "\"\\/\b\f\n\r\t";
    if (c == 'u') {
      append_utf8(result, code_point());
      return;
    }
    const char *found = c == '\0' ? nullptr : std::strchr(kFrom, c);
    if (found == nullptr)
      fail("an unknown escape");
    result += kTo[found - kFrom];
  }
  uint32_t hex4() {
    uint32_t value = 0;
    for (int i = 0; i < 4; ++i, ++at_) {
      if (at_ == end_)
        fail("a string that does not end");
      char c = *at_;
      bool is_digit = c >= '0' && c <= '9';
      bool is_letter = (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
      if (!is_digit && !is_letter)
        fail("an escape that is not hexadecimal");
      value = value * 16 + static_cast<uint32_t>(is_digit ? c - '0' : (c | 0x20) - 'a' + 10);
    }
    return value;
  }
  uint32_t code_point() {
    uint32_t high = hex4();
    if (high < 0xD800 || high >= 0xDC00)
      return high;
    if (end_ - at_ < 2 || at_[0] != '\\' || at_[1] != 'u')
      fail("half a surrogate pair");
    at_ += 2;
    return 0x10000 + ((high - 0xD800) << 10) + ((hex4() - 0xDC00) & 0x3FF);
  }
  static void append_utf8(std::string &result, uint32_t code) {
    auto byte = [&](uint32_t value) { result += static_cast<char>(value); };
    if (code < 0x80) {
      byte(code);
    } else if (code < 0x800) {
      byte(0xC0 | code >> 6);
      byte(0x80 | (code & 0x3F));
    } else if (code < 0x10000) {
      byte(0xE0 | code >> 12);
      byte(0x80 | (code >> 6 & 0x3F));
      byte(0x80 | (code & 0x3F));
    } else {
      byte(0xF0 | code >> 18);
      byte(0x80 | (code >> 12 & 0x3F));
      byte(0x80 | (code >> 6 & 0x3F));
      byte(0x80 | (code & 0x3F));
    }
  }

  const char *at_, *begin_, *end_;
};

/// Bytes of a tensor; -1 on overflow.
int64_t tensor_bytes(DType dtype, const std::vector<int64_t> &sizes) {
  auto bytes = static_cast<int64_t>(size_in_bytes(dtype));
  for (int64_t size : sizes)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return -1;
  return bytes;
}

int open_file(const std::string &path, size_t &bytes) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    throw Error(Status::bad_argument, path + ": " + std::strerror(errno));
  struct stat info = {};
  if (fstat(file, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 8) {
    close(file);
    throw Error(Status::bad_argument, path + ": this is no .safetensors file");
  }
  bytes = static_cast<size_t>(info.st_size);
  return file;
}

} // namespace

WeightsFile::WeightsFile(const std::string &path) : path_(path), file_(open_file(path, bytes_)) {
  try {
    read_header();
  } catch (const Error &error) {
    close(file_);
    throw Error(error.status, path + ": " + error.what());
  } catch (...) {
    close(file_);
    throw;
  }
}
WeightsFile::~WeightsFile() { close(file_); }

void WeightsFile::read(char *to, size_t begin, size_t bytes) const {
  while (bytes > 0) {
    const ssize_t count = pread(file_, to, bytes, static_cast<off_t>(begin));
    if (count < 0 && errno == EINTR)
      continue;
    if (count <= 0)
      throw Error(Status::bad_argument,
                  count < 0 ? std::strerror(errno) : "the file was cut short while it was read");
    to += count;
    begin += static_cast<size_t>(count);
    bytes -= static_cast<size_t>(count);
  }
}

void WeightsFile::read_header() {
  unsigned char size[8];
  read(reinterpret_cast<char *>(size), 0, sizeof size);
  uint64_t header = 0;
  for (int i = 7; i >= 0; --i) // little endian
    header = header << 8 | size[i];
  if (header > kMaxHeader || header > bytes_ - 8)
    throw Error(Status::bad_argument, "this is no .safetensors file");
  std::vector<char> text(static_cast<size_t>(header));
  read(text.data(), 8, text.size());
  size_t payload = 8 + static_cast<size_t>(header);
  auto payload_bytes = static_cast<int64_t>(bytes_ - payload);
  HeaderScanner scanner(text.data(), text.data() + text.size());
  scanner.scan([&](const std::string &name, const RawEntry &raw) {
    for (const NamedDType &known : kDTypes) {
      if (raw.dtype != known.name)
        continue;
      bool is_sound = raw.offsets.size() == 2 && raw.offsets[0] <= raw.offsets[1] &&
                      raw.offsets[1] <= payload_bytes &&
                      raw.offsets[1] - raw.offsets[0] == tensor_bytes(known.dtype, raw.sizes);
      if (!is_sound)
        throw Error(Status::bad_argument,
                    "the bytes of tensor \"" + name + "\" do not fit its shape or the file");
      entries_[name] = {known.dtype, raw.sizes, payload + static_cast<size_t>(raw.offsets[0]),
                        static_cast<size_t>(raw.offsets[1] - raw.offsets[0])};
    }
  });
}

WeightData WeightsFile::find(const std::string &name) {
  auto found = entries_.find(name);
  if (found == entries_.end())
    return {};
  const Entry &entry = found->second;
  data_.resize(std::max<size_t>(entry.bytes, 1)); // empty tensors have data too
  try {
    read(data_.data(), entry.begin, entry.bytes);
  } catch (const Error &error) {
    throw Error(error.status, path_ + ": " + error.what());
  }
  return {data_.data(), entry.dtype, entry.sizes.data(), entry.sizes.size()};
}

} // namespace tsc_engine
