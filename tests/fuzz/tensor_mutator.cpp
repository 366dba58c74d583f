#include "tensor_mutator.h"

#include <algorithm>

namespace tsc::fuzz {
namespace {

constexpr size_t kSafetensorsPreamble = 8, kNpyPreamble = 10;

uint64_t little_endian(std::string_view bytes, size_t count) {
  uint64_t value = 0;
  for (size_t i = count; i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}
std::string little_endian_bytes(uint64_t value, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i)
    bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

std::string resized(std::string_view data, Random &random) {
  std::string result(data);
  if (one_in(random, 4))
    result.resize(below(random, 2 * result.size() + 64), '\x3f');
  return result;
}

const JsonVocabulary &safetensors_words() {
  static const JsonVocabulary words = {{"\"BOOL\"", "\"U8\"", "\"I8\"", "\"I16\"", "\"I32\"",
                                        "\"I64\"", "\"U16\"", "\"U32\"", "\"U64\"", "\"F16\"",
                                        "\"BF16\"", "\"F32\"", "\"F64\"", "\"F8_E4M3\"",
                                        "\"F8_E5M2\"", "\"C64\"", "[0, 4]", "[4, 8]"}};
  return words;
}

/// One change of a header dictionary's text.
std::string mutate_dictionary(std::string text, size_t max_size, Random &random) {
  static constexpr const char *kPieces[] = {"'descr': '<f4'",
                                            "'descr': '>f4'",
                                            "'descr': '|b1'",
                                            "'descr': '<i8'",
                                            "'descr': '|V2'",
                                            "'descr': '<c8'",
                                            "'fortran_order': True",
                                            "'fortran_order': False",
                                            "'shape': (2, 3)",
                                            "'shape': ()",
                                            "'shape': (0,)",
                                            "'shape': (-1,)",
                                            "'shape': (9223372036854775807,)",
                                            "'shape': (4294967296, 4294967296)",
                                            "{",
                                            "}",
                                            ", ",
                                            "1, ",
                                            "L",
                                            "'"};
  if (one_in(random, 2))
    return mutate_bytes(std::move(text), max_size);
  size_t at = text.rfind('\'', below(random, text.size() + 1));
  if (at == std::string::npos)
    at = below(random, text.size() + 1);
  text.insert(at, kPieces[below(random, std::size(kPieces))]);
  return text.substr(0, max_size);
}

} // namespace

std::string mutate_safetensors(std::string_view bytes, size_t max_size, Random &random) {
  if (bytes.size() < kSafetensorsPreamble || max_size < 64 || one_in(random, 20))
    return mutate_bytes(std::string(bytes), max_size);
  uint64_t length = std::min<uint64_t>(little_endian(bytes, kSafetensorsPreamble),
                                       bytes.size() - kSafetensorsPreamble);
  size_t header_size = static_cast<size_t>(length);
  std::string header = mutate_json(bytes.substr(kSafetensorsPreamble, header_size),
                                   max_size - kSafetensorsPreamble, random, safetensors_words());
  std::string data = resized(bytes.substr(kSafetensorsPreamble + header_size), random);
  uint64_t claimed = header.size();
  if (one_in(random, 16))
    claimed += static_cast<uint64_t>(1) << below(random, 64);
  std::string result = little_endian_bytes(claimed, kSafetensorsPreamble) + header + data;
  return result.substr(0, max_size);
}

std::string mutate_npy(std::string_view bytes, size_t max_size, Random &random) {
  if (bytes.size() < kNpyPreamble || max_size < 64 || one_in(random, 20))
    return mutate_bytes(std::string(bytes), max_size);
  size_t version =
      static_cast<unsigned char>(bytes[6]) > 1 && bytes.size() >= kNpyPreamble + 2 ? 2 : 1;
  size_t width = version == 1 ? 2 : 4;
  size_t start = 8 + width;
  size_t length = std::min<size_t>(little_endian(bytes.substr(8), width), bytes.size() - start);
  std::string header =
      mutate_dictionary(std::string(bytes.substr(start, length)), max_size - start, random);
  if (one_in(random, 8))
    version = 1 + below(random, 4);
  uint64_t claimed = header.size();
  if (one_in(random, 16))
    claimed += uint64_t{1} << below(random, 32);
  std::string result = "\x93NUMPY";
  result += static_cast<char>(version);
  result += '\0';
  result += little_endian_bytes(claimed, version == 1 ? 2 : 4);
  result += header + resized(bytes.substr(start + length), random);
  return result.substr(0, max_size);
}

} // namespace tsc::fuzz
