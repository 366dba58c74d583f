#include "tensor/npy.h"

#include "tensor/file_parts.h"

#include <charconv>

namespace tsc::tensor {

namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);

struct DescriptorRow {
  DType dtype;
  const char *text;
};
constexpr DescriptorRow kDescriptors[] = {
    {DType::boolean, "|b1"}, {DType::u8, "|u1"},  {DType::i8, "|i1"},    {DType::i16, "<i2"},
    {DType::i32, "<i4"},     {DType::i64, "<i8"}, {DType::u16, "<u2"},   {DType::u32, "<u4"},
    {DType::u64, "<u8"},     {DType::f16, "<f2"}, {DType::bf16, "<V2"},  {DType::f32, "<f4"},
    {DType::f64, "<f8"},     {DType::c64, "<c8"}, {DType::c128, "<c16"},
};

/// Reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4),
/// }.
class HeaderReader {
public:
  HeaderReader(std::string_view text, const std::string &place) : text_(text), place_(place) {}

  std::string descriptor;
  bool fortran = false;
  std::vector<int64_t> shape;

  void read() {
    bool has_descriptor = false, has_order = false, has_shape = false;
    expect('{');
    while (!accept('}')) {
      std::string key = string();
      expect(':');
      if (key == "descr" && !has_descriptor) {
        if (peek() != '\'' && peek() != '"')
          fail_file("TSC-T022", "structured NumPy dtypes are not supported", place_,
                    "save one plain array for each field", support::ExitCode::unsupported);
        descriptor = string();
        has_descriptor = true;
      } else if (key == "fortran_order" && !has_order) {
        fortran = boolean();
        has_order = true;
      } else if (key == "shape" && !has_shape) {
        read_shape();
        has_shape = true;
      } else {
        fail("the key '" + key + "' is unknown or stands twice");
      }
      if (!accept(',') && peek() != '}')
        fail("expected ',' or '}'");
    }
    if (!has_descriptor || !has_order || !has_shape)
      fail("descr, fortran_order or shape is missing");
  }

private:
  [[noreturn]] void fail(const std::string &reason) {
    fail_file("TSC-T020", "the .npy header is malformed: " + reason, place_,
              "write the file again with numpy.save");
  }
  char peek() {
    while (position_ < text_.size() && (text_[position_] == ' ' || text_[position_] == '\n'))
      ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool accept(char c) {
    if (peek() != c)
      return false;
    ++position_;
    return true;
  }
  void expect(char c) {
    if (!accept(c))
      fail(std::string("expected '") + c + "'");
  }
  std::string string() {
    char quote = peek();
    if (quote != '\'' && quote != '"')
      fail("expected a string");
    size_t end = text_.find(quote, position_ + 1);
    if (end == std::string_view::npos)
      fail("a string does not end");
    std::string result(text_.substr(position_ + 1, end - position_ - 1));
    position_ = end + 1;
    return result;
  }
  bool boolean() {
    peek();
    for (std::string_view word : {"True", "False"}) {
      if (text_.substr(position_, word.size()) == word) {
        position_ += word.size();
        return word == "True";
      }
    }
    fail("expected True or False");
  }
  void read_shape() {
    expect('(');
    while (!accept(')')) {
      peek();
      int64_t size = 0;
      const char *end = text_.data() + text_.size();
      auto parsed = std::from_chars(text_.data() + position_, end, size);
      if (parsed.ec != std::errc())
        fail("expected a size");
      position_ = static_cast<size_t>(parsed.ptr - text_.data());
      shape.push_back(size);
      if (!accept(',') && peek() != ')')
        fail("expected ',' or ')'");
    }
  }

  std::string_view text_;
  const std::string &place_;
  size_t position_ = 0;
};

DType parse_descriptor(const std::string &text, const std::string &place) {
  for (const DescriptorRow &row : kDescriptors)
    if (text == row.text)
      return row.dtype;
  // One-byte types may carry any byte order, and the machine's own may be '='.
  if (text.size() >= 3) {
    for (const DescriptorRow &row : kDescriptors)
      if (text.substr(1) == std::string(row.text).substr(1) &&
          (size_in_bytes(row.dtype) == 1 || text[0] == '=' || text == "|V2"))
        return row.dtype;
  }
  bool big_endian = !text.empty() && text[0] == '>';
  fail_file("TSC-T022", "the NumPy dtype '" + text + "' is not supported", place,
            big_endian ? "save the array in little-endian byte order"
                       : "save the array as bool, intN, uintN or floatN",
            support::ExitCode::unsupported);
}

} // namespace

HostTensor parse_npy(const Payload &payload, const std::string &place) {
  std::string_view text = payload.text();
  auto byte = [&](size_t i) { return static_cast<size_t>(static_cast<unsigned char>(text[i])); };
  if (text.size() < 10 || text.substr(0, kMagic.size()) != kMagic)
    fail_file("TSC-T020", "this is no .npy file", place, "write it with numpy.save");
  size_t version = byte(6);
  if (version < 1 || version > 3)
    fail_file("TSC-T020", "the .npy format version " + std::to_string(version) + " is unknown",
              place);
  size_t start = version == 1 ? 10 : 12;
  size_t length = byte(8) | byte(9) << 8;
  if (version > 1 && text.size() >= 12)
    length |= byte(10) << 16 | byte(11) << 24;
  if (text.size() < start || length > text.size() - start)
    fail_file("TSC-T021",
              "the .npy header claims " + std::to_string(length) + " bytes, the file ends before",
              place, "copy the file again; it is not complete");
  HeaderReader header(text.substr(start, length), place);
  header.read();
  DType dtype = parse_descriptor(header.descriptor, place);
  std::optional<uint64_t> bytes = tensor_bytes(dtype, header.shape);
  if (!bytes)
    fail_file("TSC-T020", "the .npy shape is negative or exceeds 2^63 - 1 bytes", place);
  uint64_t offset = start + length;
  if (*bytes > payload.size - offset)
    fail_file("TSC-T021",
              "the array needs " + std::to_string(*bytes) + " bytes from byte " +
                  std::to_string(offset) + " on, the file has " +
                  std::to_string(payload.size - offset),
              place, "copy the file again; it is not complete");
  return view_payload(payload, offset, dtype, std::move(header.shape), header.fortran);
}

std::string npy_header(const HostTensor &tensor, const std::string &name) {
  std::string descriptor;
  for (const DescriptorRow &row : kDescriptors)
    if (row.dtype == tensor.dtype())
      descriptor = row.text;
  if (descriptor.empty())
    fail_file("TSC-T022", "NumPy has no dtype for " + std::string(torch_name(tensor.dtype())), name,
              "write a .safetensors file", support::ExitCode::unsupported);
  std::string text = "{'descr': '" + descriptor + "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.sizes())
    text += std::to_string(size) + ", ";
  if (tensor.sizes().size() > 1)
    text.resize(text.size() - 2);
  else if (tensor.sizes().size() == 1)
    text.resize(text.size() - 1);
  text += "), }";
  constexpr size_t kPreamble = 10, kAlignment = 64;
  size_t total = (kPreamble + text.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  if (total - kPreamble > 0xffff)
    fail_file("TSC-T022", "the array has too many dimensions for a .npy header", name, "",
              support::ExitCode::unsupported);
  text.resize(total - kPreamble - 1, ' ');
  text += '\n';
  std::string header(kMagic);
  header += '\1';
  header += '\0';
  header += static_cast<char>(text.size() & 0xff);
  header += static_cast<char>(text.size() >> 8);
  return header + text;
}

} // namespace tsc::tensor
