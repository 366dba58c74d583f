// A parsed JSON file: ordered, read-only, every value knows its place. Internal to lib/graph.
//
// Parsing is one pass, without recursion; duplicate keys and nesting beyond kMaxJsonDepth are
// errors, so readers may recurse over a document.
#pragma once

#include "support/diagnostic.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::graph {

constexpr size_t kMaxJsonDepth = 256;

enum class JsonKind : uint8_t { null, boolean, integer, number, string, array, object };

/// A value of a JsonDocument; valid as long as the document.
struct JsonValue {
  JsonKind kind = JsonKind::null;
  bool boolean = false;
  uint32_t count = 0; // children of an array or object
  union {
    int64_t integer = 0;
    double number;
    const JsonValue *children;
  };
  std::string_view string; // kind string
  std::string_view key;    // within an object
  const JsonValue *parent = nullptr;

  const JsonValue *begin() const;
  const JsonValue *end() const;
  bool is_null() const { return kind == JsonKind::null; }
  /// Child of an object; nullptr if absent. Linear in the number of children.
  const JsonValue *find(std::string_view name) const;
};

class JsonDocument {
public:
  /// Throws UserError (bad_input) TSC-G002 (malformed), TSC-G003 (duplicate key), TSC-G004 (too
  /// deep).
  static JsonDocument parse(std::string_view text, const std::string &label);
  const JsonValue &root() const { return *root_; }

private:
  friend class JsonBuilder;
  JsonDocument() = default;
  std::vector<std::unique_ptr<JsonValue[]>> blocks_;
  std::vector<std::unique_ptr<char[]>> text_;
  const JsonValue *root_ = nullptr;
};

/// RFC 6901 pointer of `value` within its document; "" is the root.
std::string json_pointer(const JsonValue &value);

/// Throws UserError (bad_input) with the place of `at`.
[[noreturn]] void fail_at(const JsonValue &at, std::string code, std::string message,
                          std::string next_step = "");
/// The same as unsupported.
[[noreturn]] void fail_unsupported_at(const JsonValue &at, std::string code, std::string message,
                                      std::string next_step);

// Typed access; each throws TSC-G005 (missing key) or TSC-G006 (wrong type) with the place.
const JsonValue &member(const JsonValue &object, std::string_view name);
/// nullptr if absent or null.
const JsonValue *optional_member(const JsonValue &object, std::string_view name);
const JsonValue &expect_object(const JsonValue &value);
const JsonValue &expect_array(const JsonValue &value);
std::string_view expect_string(const JsonValue &value);
/// A node's name or target: not empty, no white space, no control characters (it goes into comments
/// of generated code). TSC-G018.
std::string_view expect_name(const JsonValue &value);
int64_t expect_integer(const JsonValue &value);
bool expect_boolean(const JsonValue &value);
/// Also "Infinity", "-Infinity", "NaN", as torch.export writes them.
double expect_number(const JsonValue &value);
/// TSC-G007 for a key that is not in `known`.
void expect_only_keys(const JsonValue &object, std::initializer_list<std::string_view> known);
/// The only child of a tagged union {"kind": value}; TSC-G006 if there is not exactly one.
const JsonValue &expect_union(const JsonValue &value);

} // namespace tsc::graph
