#include "graph/json_document.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <unordered_set>

namespace tsc::graph {

using support::Diagnostic;
using support::ExitCode;
using support::UserError;

const JsonValue *JsonValue::begin() const {
  return kind == JsonKind::array || kind == JsonKind::object ? children : nullptr;
}
const JsonValue *JsonValue::end() const { return begin() + count; }

const JsonValue *JsonValue::find(std::string_view name) const {
  if (kind == JsonKind::object)
    for (const JsonValue &child : *this)
      if (child.key == name)
        return &child;
  return nullptr;
}

namespace {

/// "line 3, column 14 (byte 57)"; the column counts bytes.
std::string text_place(std::string_view text, size_t byte) {
  byte = std::min(byte, text.size());
  auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(byte), '\n');
  size_t start = byte == 0 ? std::string_view::npos : text.rfind('\n', byte - 1);
  size_t column = start == std::string_view::npos ? byte + 1 : byte - start;
  return "line " + std::to_string(line) + ", column " + std::to_string(column) + " (byte " +
         std::to_string(byte) + ")";
}

} // namespace

/// nlohmann's SAX events -> JsonDocument. Children collect on one stack and move into a block of
/// their own when their container closes.
class JsonBuilder {
public:
  using number_integer_t = nlohmann::json::number_integer_t;
  using number_unsigned_t = nlohmann::json::number_unsigned_t;
  using number_float_t = nlohmann::json::number_float_t;
  using string_t = std::string;
  using binary_t = nlohmann::json::binary_t;

  JsonBuilder(std::string_view text, const std::string &label) : text_(text), label_(label) {}

  bool null() { return add({}); }
  bool boolean(bool value) {
    JsonValue v;
    v.kind = JsonKind::boolean;
    v.boolean = value;
    return add(v);
  }
  bool number_integer(number_integer_t value) {
    JsonValue v;
    v.kind = JsonKind::integer;
    v.integer = value;
    return add(v);
  }
  bool number_unsigned(number_unsigned_t value) {
    if (value <= static_cast<number_unsigned_t>(std::numeric_limits<int64_t>::max()))
      return number_integer(static_cast<number_integer_t>(value));
    return number_float(static_cast<number_float_t>(value), {});
  }
  bool number_float(number_float_t value, const string_t &) {
    JsonValue v;
    v.kind = JsonKind::number;
    v.number = value;
    return add(v);
  }
  bool string(string_t &value) {
    JsonValue v;
    v.kind = JsonKind::string;
    v.string = keep(value);
    return add(v);
  }
  bool binary(binary_t &) { return false; }
  bool start_object(size_t) { return open(JsonKind::object); }
  bool start_array(size_t) { return open(JsonKind::array); }
  bool key(string_t &value) {
    key_ = keep(value);
    return true;
  }
  bool end_object() { return close(); }
  bool end_array() { return close(); }
  bool parse_error(size_t position, const std::string &, const nlohmann::detail::exception &) {
    bool at_end = position > text_.size() || text_.empty();
    fail("TSC-G002", at_end ? "the JSON breaks off" : "the JSON is malformed", "",
         text_place(text_, position == 0 ? 0 : position - 1),
         at_end ? "copy the file again; it is not complete" : "");
  }

  JsonDocument finish() {
    auto root = std::make_unique<JsonValue[]>(1);
    root[0] = stack_.front();
    adopt(root[0]);
    document_.root_ = root.get();
    document_.blocks_.push_back(std::move(root));
    return std::move(document_);
  }

private:
  struct Open {
    size_t position; // of the container on the stack
  };

  [[noreturn]] void fail(const char *code, std::string message, std::string_view node,
                         std::string place, std::string next_step) {
    throw UserError(ExitCode::bad_input,
                    Diagnostic{code, std::move(message), label_, std::move(place),
                               std::string(node), "", std::move(next_step)});
  }

  std::string_view keep(const std::string &text) {
    constexpr size_t kChunk = size_t{1} << 16;
    if (text.empty())
      return {};
    if (text.size() > room_) {
      room_ = std::max(kChunk, text.size());
      document_.text_.push_back(std::make_unique<char[]>(room_));
      next_ = document_.text_.back().get();
    }
    std::memcpy(next_, text.data(), text.size());
    std::string_view kept(next_, text.size());
    next_ += text.size();
    room_ -= text.size();
    return kept;
  }

  bool add(JsonValue value) {
    value.key = key_;
    key_ = {};
    stack_.push_back(value);
    return true;
  }

  bool open(JsonKind kind) {
    if (open_.size() >= kMaxJsonDepth)
      fail("TSC-G004",
           "the JSON is nested more than " + std::to_string(kMaxJsonDepth) + " levels deep", "", "",
           "no graph needs such nesting; check what wrote the file");
    JsonValue value;
    value.kind = kind;
    value.children = nullptr;
    add(value);
    open_.push_back({stack_.size() - 1});
    return true;
  }

  bool close() {
    size_t position = open_.back().position;
    open_.pop_back();
    size_t count = stack_.size() - position - 1;
    if (count > std::numeric_limits<uint32_t>::max())
      fail("TSC-G002", "a JSON array has more than 2^32 elements", "", "", "");
    auto block = std::make_unique<JsonValue[]>(count);
    std::copy_n(stack_.begin() + static_cast<std::ptrdiff_t>(position) + 1, count, block.get());
    stack_.resize(position + 1);
    JsonValue &container = stack_.back();
    container.count = static_cast<uint32_t>(count);
    container.children = block.get();
    for (size_t i = 0; i < count; ++i)
      adopt(block[i]);
    if (container.kind == JsonKind::object)
      check_keys(container);
    document_.blocks_.push_back(std::move(block));
    return true;
  }

  /// `value` has its final address: tells its children.
  static void adopt(JsonValue &value) {
    for (const JsonValue &child : value)
      const_cast<JsonValue &>(child).parent = &value;
  }

  void check_keys(const JsonValue &object) {
    constexpr uint32_t kFew = 16;
    if (object.count <= kFew) {
      for (const JsonValue *a = object.begin(); a != object.end(); ++a)
        for (const JsonValue *b = object.begin(); b != a; ++b)
          if (a->key == b->key)
            fail_duplicate(a->key);
      return;
    }
    std::unordered_set<std::string_view> seen;
    seen.reserve(object.count);
    for (const JsonValue &child : object)
      if (!seen.insert(child.key).second)
        fail_duplicate(child.key);
  }

  [[noreturn]] void fail_duplicate(std::string_view key) {
    std::string place;
    for (const Open &container : open_) {
      const JsonValue &value = stack_[container.position];
      if (!value.key.empty())
        place += "/" + std::string(value.key);
    }
    if (!stack_.back().key.empty())
      place += "/" + std::string(stack_.back().key);
    fail("TSC-G003", "the key '" + std::string(key) + "' appears twice in one JSON object", "",
         place.empty() ? "the outermost object" : "an object under " + place,
         "remove one of the two");
  }

  std::string_view text_;
  const std::string &label_;
  JsonDocument document_;
  std::vector<JsonValue> stack_;
  std::vector<Open> open_;
  std::string_view key_;
  char *next_ = nullptr;
  size_t room_ = 0;
};

JsonDocument JsonDocument::parse(std::string_view text, const std::string &label) {
  JsonBuilder builder(text, label);
  nlohmann::json::sax_parse(text.begin(), text.end(), &builder);
  return builder.finish();
}

std::string json_pointer(const JsonValue &value) {
  std::vector<std::string> parts;
  for (const JsonValue *at = &value; at->parent != nullptr; at = at->parent) {
    if (at->parent->kind == JsonKind::array) {
      parts.push_back(std::to_string(at - at->parent->begin()));
      continue;
    }
    std::string escaped;
    for (char c : at->key)
      escaped += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    parts.push_back(std::move(escaped));
  }
  std::string pointer;
  for (size_t i = parts.size(); i-- > 0;)
    pointer += "/" + parts[i];
  return pointer;
}

namespace {

std::string place_of(const JsonValue &at) {
  std::string pointer = json_pointer(at);
  return pointer.empty() ? "the outermost value" : pointer;
}

std::string_view kind_name(JsonKind kind) {
  constexpr std::string_view kNames[] = {"null",     "a boolean", "an integer", "a number",
                                         "a string", "an array",  "an object"};
  return kNames[static_cast<size_t>(kind)];
}

[[noreturn]] void fail_type(const JsonValue &value, std::string_view expected) {
  std::string found(kind_name(value.kind));
  if (value.kind == JsonKind::integer)
    found = std::to_string(value.integer);
  else if (value.kind == JsonKind::string)
    found = "'" + std::string(value.string.substr(0, 60)) + "'";
  else if (value.kind == JsonKind::boolean)
    found = value.boolean ? "true" : "false";
  fail_at(value, "TSC-G006", "expected " + std::string(expected) + ", found " + found);
}

} // namespace

void fail_at(const JsonValue &at, std::string code, std::string message, std::string next_step) {
  throw UserError(ExitCode::bad_input, Diagnostic{std::move(code), std::move(message), "",
                                                  place_of(at), "", "", std::move(next_step)});
}

void fail_unsupported_at(const JsonValue &at, std::string code, std::string message,
                         std::string next_step) {
  throw UserError(ExitCode::unsupported, Diagnostic{std::move(code), std::move(message), "",
                                                    place_of(at), "", "", std::move(next_step)});
}

const JsonValue &member(const JsonValue &object, std::string_view name) {
  const JsonValue *found = expect_object(object).find(name);
  if (found == nullptr)
    fail_at(object, "TSC-G005", "the key '" + std::string(name) + "' is missing");
  return *found;
}

const JsonValue *optional_member(const JsonValue &object, std::string_view name) {
  const JsonValue *found = expect_object(object).find(name);
  return found == nullptr || found->is_null() ? nullptr : found;
}

const JsonValue &expect_object(const JsonValue &value) {
  if (value.kind != JsonKind::object)
    fail_type(value, "an object");
  return value;
}
const JsonValue &expect_array(const JsonValue &value) {
  if (value.kind != JsonKind::array)
    fail_type(value, "an array");
  return value;
}
std::string_view expect_string(const JsonValue &value) {
  if (value.kind != JsonKind::string)
    fail_type(value, "a string");
  return value.string;
}
std::string_view expect_name(const JsonValue &value) {
  std::string_view name = expect_string(value);
  bool plain = !name.empty();
  for (char c : name)
    plain = plain && static_cast<unsigned char>(c) > ' ' && c != 127;
  if (!plain)
    fail_at(value, "TSC-G018", "a name is empty, or has white space or control characters in it");
  return name;
}
int64_t expect_integer(const JsonValue &value) {
  if (value.kind != JsonKind::integer)
    fail_type(value, "an integer of 64 bits");
  return value.integer;
}
bool expect_boolean(const JsonValue &value) {
  if (value.kind != JsonKind::boolean)
    fail_type(value, "a boolean");
  return value.boolean;
}
double expect_number(const JsonValue &value) {
  if (value.kind == JsonKind::number)
    return value.number;
  if (value.kind == JsonKind::integer)
    return static_cast<double>(value.integer);
  if (value.kind == JsonKind::string) {
    if (value.string == "Infinity")
      return std::numeric_limits<double>::infinity();
    if (value.string == "-Infinity")
      return -std::numeric_limits<double>::infinity();
    if (value.string == "NaN")
      return std::numeric_limits<double>::quiet_NaN();
  }
  fail_type(value, "a number");
}

void expect_only_keys(const JsonValue &object, std::initializer_list<std::string_view> known) {
  for (const JsonValue &child : expect_object(object)) {
    if (std::find(known.begin(), known.end(), child.key) != known.end())
      continue;
    std::string key(child.key);
    std::string near =
        support::did_you_mean(key, std::vector<std::string>(known.begin(), known.end()));
    fail_at(child, "TSC-G007", "the key '" + key + "' is not known here",
            near.empty() ? "remove it" : "did you mean '" + near + "'?");
  }
}

const JsonValue &expect_union(const JsonValue &value) {
  if (expect_object(value).count != 1)
    fail_at(value, "TSC-G006",
            "expected an object with exactly one key, found " + std::to_string(value.count));
  return *value.begin();
}

} // namespace tsc::graph
