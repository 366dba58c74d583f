// Mutations of JSON text that keep it JSON (mostly), so that a fuzzer gets past the parser.
#pragma once

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::fuzz {

using Random = std::mt19937;
inline size_t below(Random &random, size_t bound) { return bound == 0 ? 0 : random() % bound; }
/// True once in `n` calls.
inline bool one_in(Random &random, unsigned n) { return random() % n == 0; }

/// Copies what fits of `text` to `data`; how much that is.
size_t give(const std::string &text, uint8_t *data, size_t max_size);
/// libFuzzer's own mutation of plain bytes.
std::string mutate_bytes(std::string bytes, size_t max_size);

/// A JSON value as text: tokens are kept as they were written, keys may repeat.
struct JsonMember;
struct JsonTree {
  enum class Kind : uint8_t { token, array, object } kind = Kind::token;
  std::string token; // a number, word or string with its quotes
  std::vector<JsonMember> members;
};
struct JsonMember {
  std::string key; // with its quotes; "" in an array
  JsonTree value;
};
/// False if `text` is no JSON or nested too deep.
bool parse_json(std::string_view text, JsonTree &tree);
std::string to_text(const JsonTree &tree);

/// What a mutation may insert besides what stands in the text itself: tokens, such as
/// "\"aten.add.Tensor\"".
struct JsonVocabulary {
  std::vector<std::string> tokens;
};

/// A few random mutations of `text`: values of another kind or from elsewhere, keys and elements
/// doubled, removed, swapped, renamed, extreme numbers, references renamed in one place or
/// everywhere. Text that is no JSON, and some that is, gets mutate_bytes. At most max_size bytes.
std::string mutate_json(std::string_view text, size_t max_size, Random &random,
                        const JsonVocabulary &vocabulary = {});
/// `a` with a value out of `b`.
std::string cross_json(std::string_view a, std::string_view b, size_t max_size, Random &random);

} // namespace tsc::fuzz
