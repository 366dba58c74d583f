// program.json -> Program: types and spelling here, meaning in validate.cpp.
#include "program/names.h"
#include "program/program.h"
#include "program/step_fields.h"
#include "program/validate.h"
#include "support/diagnostic.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <set>
#include <stdexcept>

namespace tsc::program {
namespace {

using Json = nlohmann::json;
using support::Diagnostic;
using support::ExitCode;
using support::UserError;

std::string in_quotes(std::string_view text) {
  std::string result = "\"";
  result += text;
  result += '"';
  return result;
}

/// A value and the way to it; the JSON pointer is spelled only when an error needs it.
struct Cursor {
  const Json *json;
  const Cursor *parent = nullptr;
  std::string_view key = {};
  size_t position = 0;
  bool is_element = false;

  std::string pointer() const {
    if (parent == nullptr)
      return "";
    return parent->pointer() + "/" + (is_element ? std::to_string(position) : std::string(key));
  }
  [[noreturn]] void fail(const char *code, const std::string &message) const {
    throw UserError(ExitCode::bad_input,
                    Diagnostic{code, message, "", pointer(), "", "",
                               "compile the graph again with this version of tsc"});
  }
  [[noreturn]] void wrong_type(const std::string &expected) const {
    fail("TSC-P003", "expected " + expected + ", found " + json->type_name());
  }

  /// Absent members give a cursor whose exists() is false.
  Cursor optional(std::string_view name) const {
    if (!json->is_object())
      wrong_type("an object");
    auto found = json->find(name);
    return {found == json->end() ? nullptr : &*found, this, name};
  }
  Cursor at(std::string_view name) const {
    Cursor member = optional(name);
    if (!member.exists())
      fail("TSC-P003", in_quotes(name) + " is missing");
    return member;
  }
  bool exists() const { return json != nullptr; }

  int64_t integer(int64_t low, int64_t high) const {
    if (!json->is_number_integer())
      wrong_type("an integer");
    bool too_big =
        json->is_number_unsigned() &&
        json->get<uint64_t>() > static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (too_big || json->get<int64_t>() < low || json->get<int64_t>() > high)
      fail("TSC-P006", "the value " + json->dump() + " is outside [" + std::to_string(low) + ", " +
                           std::to_string(high) + "]");
    return json->get<int64_t>();
  }
  uint32_t index() const { return static_cast<uint32_t>(integer(0, INT32_MAX)); }
  const std::string &text() const {
    if (!json->is_string())
      wrong_type("a string");
    return json->get_ref<const std::string &>();
  }
  bool boolean() const {
    if (!json->is_boolean())
      wrong_type("true or false");
    return json->get<bool>();
  }
  double number() const {
    if (json->is_number())
      return json->get<double>();
    const std::string &word = text();
    if (word == "inf" || word == "-inf")
      return word == "inf" ? INFINITY : -INFINITY;
    if (word != "nan")
      fail("TSC-P003", "expected a number, found \"" + word + "\"");
    return NAN;
  }
  Expr expression() const {
    if (json->is_number_integer())
      return Expr(integer(INT64_MIN, INT64_MAX));
    try {
      return symbolic::parse(text());
    } catch (const UserError &error) {
      fail("TSC-P004",
           in_quotes(text()) + " is no size expression: " + error.diagnostics().front().message);
    }
  }
  tensor::DType dtype() const {
    std::optional<tensor::DType> dtype = tensor::parse_dtype(text());
    if (!dtype)
      fail("TSC-P005", "unknown element type \"" + text() + "\"");
    return *dtype;
  }
  template <size_t count> size_t one_of(const std::array<std::string_view, count> &names) const {
    auto found = std::find(names.begin(), names.end(), text());
    if (found == names.end())
      fail("TSC-P005", "unknown word \"" + text() + "\"");
    return static_cast<size_t>(found - names.begin());
  }
  /// Calls read(cursor) for every element, in order.
  template <class Read> void each(const Read &read) const {
    if (!json->is_array())
      wrong_type("an array");
    for (size_t i = 0; i < json->size(); ++i)
      read(Cursor{&(*json)[i], this, {}, i, true});
  }
  std::vector<Expr> expressions() const {
    std::vector<Expr> result;
    each([&](const Cursor &element) { result.push_back(element.expression()); });
    return result;
  }
  std::vector<std::string> texts() const {
    std::vector<std::string> result;
    each([&](const Cursor &element) { result.push_back(element.text()); });
    return result;
  }
  Expr expression_or(std::string_view name, int64_t default_value) const {
    Cursor member = optional(name);
    return member.exists() ? member.expression() : Expr(default_value);
  }
  bool flag(std::string_view name, bool default_value) const {
    Cursor member = optional(name);
    return member.exists() ? member.boolean() : default_value;
  }
};

Layout read_layout(const Cursor &at) {
  Layout layout;
  layout.sizes = at.at("sizes").expressions();
  layout.strides = at.at("strides").expressions();
  layout.offset = at.expression_or("offset", 0);
  if (layout.sizes.size() != layout.strides.size())
    at.fail("TSC-P009", std::to_string(layout.sizes.size()) + " sizes but " +
                            std::to_string(layout.strides.size()) + " strides");
  return layout;
}

void read(const Cursor &at, Symbol &symbol) {
  const std::string name = at.at("name").text();
  const std::optional<Expr> spelled = symbolic::symbol_spelled(name);
  if (!spelled || !is_of_programs(*spelled))
    at.at("name").fail("TSC-P004", in_quotes(name) + " is no symbol");
  symbol.symbol = *spelled;
  if (Cursor called = at.optional("called"); called.exists())
    symbol.name = called.text();
  if (!std::all_of(symbol.name.begin(), symbol.name.end(),
                   [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; }))
    at.at("called").fail("TSC-P004", in_quotes(symbol.name) + " is no symbol");
  symbol.low = at.at("low").integer(INT64_MIN, INT64_MAX);
  if (Cursor high = at.optional("high"); high.exists())
    symbol.high = high.integer(symbol.low, INT64_MAX);
}

void read(const Cursor &at, Buffer &buffer) {
  buffer.name = at.at("name").text();
  buffer.dtype = at.at("dtype").dtype();
  buffer.layout = read_layout(at);
  buffer.bytes = at.at("bytes").expression();
  buffer.role = static_cast<Role>(at.at("role").one_of(kRoleNames));
  if (Cursor alias = at.optional("alias_of"); alias.exists())
    buffer.alias_of = static_cast<int32_t>(alias.integer(0, INT32_MAX));
  if (Cursor weight = at.optional("weight"); weight.exists())
    buffer.weight = weight.text();
  buffer.mutated = at.flag("mutated", false);
  buffer.is_complex = at.flag("is_complex", false);
}

void read(const Cursor &at, KernelParameter &parameter) {
  parameter.kind = static_cast<KernelParameter::Kind>(at.at("kind").one_of(kParameterKindNames));
  parameter.name = at.at("name").text();
  if (parameter.kind == KernelParameter::Kind::pointer)
    parameter.dtype = at.at("dtype").dtype();
  parameter.is_const = at.flag("const", true);
}

void read(const Cursor &at, TensorMap &map) {
  map.parameter = static_cast<uint32_t>(at.at("parameter").integer(0, INT32_MAX));
  map.offset = at.expression_or("offset", 0);
  map.sizes = at.at("sizes").expressions();
  map.strides = at.at("strides").expressions();
  const auto read_all = [](const Cursor &list, std::vector<int> &values, int low, int high) {
    list.each(
        [&](const Cursor &value) { values.push_back(static_cast<int>(value.integer(low, high))); });
  };
  read_all(at.at("box"), map.box, 1, 256);
  if (at.json->contains("windows")) {
    const Cursor windows = at.at("windows");
    constexpr int kMost = 1 << 15;
    read_all(windows.at("lower"), map.lower, -kMost, kMost);
    read_all(windows.at("upper"), map.upper, -kMost, kMost);
    read_all(windows.at("step"), map.step, 1, 8);
  }
  map.tf32 = at.flag("tf32", false);
}

void read(const Cursor &at, KernelVariant &variant) {
  std::vector<Expr> grid = at.at("grid").expressions();
  std::vector<int> block;
  at.at("block").each(
      [&](const Cursor &size) { block.push_back(static_cast<int>(size.integer(1, 1024))); });
  if (grid.size() != 3 || block.size() != 3)
    at.fail("TSC-P009", "\"grid\" and \"block\" have three sizes");
  std::copy(grid.begin(), grid.end(), variant.grid.begin());
  std::copy(block.begin(), block.end(), variant.block.begin());
  variant.shared_bytes = at.expression_or("shared_bytes", 0);
  variant.has_barriers = at.flag("has_barriers", false);
  variant.together = at.flag("together", false);
  if (at.json->contains("maps"))
    at.at("maps").each([&](const Cursor &element) { read(element, variant.maps.emplace_back()); });
  variant.text = at.at("text").text();
}

/// Appends one Row per element of the array `name`.
template <class Row>
void read_all(const Cursor &at, std::string_view name, std::vector<Row> &rows) {
  Cursor array = at.at(name);
  array.each([&](const Cursor &element) {
    Row row;
    read(element, row);
    rows.push_back(std::move(row));
  });
}

void read(const Cursor &at, KernelEstimate &estimate) {
  constexpr int64_t kLargestCount = std::numeric_limits<int64_t>::max();
  estimate.is_known = true;
  for (const auto &[name, member] : kEstimateTimes)
    estimate.*member = at.at(name).number();
  estimate.blocks = at.at("blocks").integer(0, kLargestCount);
  estimate.threads_in_flight = at.at("threads_in_flight").integer(0, kLargestCount);
  estimate.waves = at.at("waves").number();
  estimate.sectors = at.at("sectors").number();
  estimate.read_again = at.at("read_again").number();
}

void read(const Cursor &at, Kernel &kernel) {
  kernel.name = at.at("name").text();
  kernel.plan = at.at("plan").text();
  kernel.origins = at.at("origins").texts();
  kernel.bytes_read = at.at("bytes_read").expression();
  kernel.bytes_written = at.at("bytes_written").expression();
  if (const Cursor estimate = at.optional("estimate"); estimate.exists())
    read(estimate, kernel.estimate);
  read_all(at, "parameters", kernel.parameters);
  Cursor cuda = at.at("cuda");
  read(cuda, kernel.cuda);
  Cursor serial = at.at("serial");
  read(serial, kernel.serial);
}

void read(const Cursor &at, Operand &operand) {
  operand.buffer = at.at("buffer").index();
  operand.offset = at.expression_or("offset", 0);
}

void read(const Cursor &at, MatrixOperand &operand) {
  operand.buffer = at.at("buffer").index();
  operand.offset = at.expression_or("offset", 0);
  operand.row_stride = at.expression_or("row_stride", 0);
  operand.column_stride = at.expression_or("column_stride", 0);
  operand.batch_stride = at.expression_or("batch_stride", 0);
}

/// The fields of a step; those that may be absent keep their defaults.
struct FieldReader {
  const Cursor *at;

  void index(std::string_view name, uint32_t &value) const { value = at->at(name).index(); }
  void integer(std::string_view name, int64_t &value, int64_t low, int64_t high) const {
    value = at->at(name).integer(low, high);
  }
  void number(std::string_view name, double &value) const { value = at->at(name).number(); }
  void flag(std::string_view name, bool &value) const { value = at->flag(name, false); }
  void text(std::string_view name, std::string &value) const { value = at->at(name).text(); }
  void label(std::string_view name, std::string &value) const {
    if (const Cursor word = at->optional(name); word.exists())
      value = word.text();
  }
  void dtype(std::string_view name, DType &value) const { value = at->at(name).dtype(); }
  void dtype(std::string_view name, std::optional<DType> &value) const {
    if (const Cursor word = at->optional(name); word.exists())
      value = word.dtype();
  }
  template <class Word, size_t count>
  void word(std::string_view name, Word &value,
            const std::array<std::string_view, count> &names) const {
    value = static_cast<Word>(at->at(name).one_of(names));
  }
  void size(std::string_view name, Expr &value, const char *) const {
    value = at->at(name).expression();
  }
  void size_or(std::string_view name, Expr &value, int64_t default_value, const char *) const {
    value = at->expression_or(name, default_value);
  }
  void expression(std::string_view name, Expr &value) const { value = at->at(name).expression(); }
  void expressions(std::string_view name, std::vector<Expr> &values) const {
    if (const Cursor list = at->optional(name); list.exists())
      values = list.expressions();
  }
  void pointers(std::string_view name, std::vector<Operand> &operands) const {
    read_all(*at, name, operands);
  }
  template <class X> void reads(std::string_view name, X &x) const { read(at->at(name), x); }
  template <class X> void reads(std::string_view name, std::optional<X> &x) const {
    if (const Cursor operand = at->optional(name); operand.exists())
      read(operand, x.emplace());
  }
  template <class X> void writes(std::string_view name, X &x) const { reads(name, x); }
  template <class X> void predicate(std::string_view name, X &x) const { reads(name, x); }
};

/// step.kind of number `kind`.
template <size_t number = 0> void read_kind(const Cursor &at, Step &step, size_t kind) {
  if constexpr (number < kStepKindNames.size()) {
    if (kind != number)
      return read_kind<number + 1>(at, step, kind);
    visit_fields(step.kind.emplace<number>(), FieldReader{&at});
  }
}

void read(const Cursor &at, Step &step) {
  step.name = at.at("name").text();
  read_kind(at, step, at.at("kind").one_of(kStepKindNames));
  step.once = at.flag("once", false);
  if (Cursor stream = at.optional("stream"); stream.exists())
    step.stream = static_cast<int>(stream.integer(0, 1024));
  if (Cursor device = at.optional("device"); device.exists())
    step.device = static_cast<int>(device.integer(0, 1024));
  if (Cursor waits = at.optional("waits"); waits.exists())
    waits.each([&](const Cursor &wait) { step.waits.push_back(wait.index()); });
}

void read(const Cursor &at, InputInfo &input) {
  input.name = at.at("name").text();
  input.buffer = at.at("buffer").index();
  input.mutated = at.flag("mutated", false);
  if (Cursor value = at.optional("value"); value.exists())
    input.value = value.expression();
}

void read(const Cursor &at, OutputInfo &output) {
  output.name = at.at("name").text();
  Cursor buffer = at.optional("buffer");
  if (!buffer.exists()) {
    output.text = at.at("text").text();
    return;
  }
  output.buffer = buffer.index();
  output.dtype = at.at("dtype").dtype();
  output.layout = read_layout(at);
  output.is_mutation = at.flag("is_mutation", false);
  output.is_complex = at.flag("is_complex", false);
}

void read(const Cursor &at, Assertion &assertion) {
  assertion.message = at.at("message").text();
  assertion.node = at.at("node").text();
  assertion.source_line = at.at("source_line").text();
}

void read(const Cursor &at, SizeAssertion &row) {
  read(at, row.assertion);
  row.condition = at.at("condition").expression();
}

tensor::Structure read_structure(const Cursor &at) {
  try {
    return tensor::structure_from_json(at.json->dump());
  } catch (const std::invalid_argument &error) {
    at.fail("TSC-P003", std::string("the structure cannot be read: ") + error.what());
  }
}

Program read_program(const Cursor &root) {
  Program program;
  if (root.at("format").text() != kFormat)
    root.at("format").fail("TSC-P001", "this is no program of tsc");
  program.version = static_cast<int>(root.at("version").integer(0, INT32_MAX));
  if (program.version != kVersion)
    root.at("version").fail("TSC-P001", "the program has version " +
                                            std::to_string(program.version) + ", this tsc reads " +
                                            std::to_string(kVersion));
  program.name = root.at("name").text();
  program.archs = root.at("archs").texts();
  if (const Cursor part = root.optional("part"); part.exists())
    program.part = part.text();
  read_all(root, "symbols", program.symbols);
  read_all(root, "inputs", program.inputs);
  read_all(root, "outputs", program.outputs);
  if (const Cursor structure = root.optional("structure"); structure.exists())
    program.structure = read_structure(structure);
  read_all(root, "buffers", program.buffers);
  read_all(root, "kernels", program.kernels);
  read_all(root, "steps", program.steps);
  if (root.optional("assertions").exists())
    read_all(root, "assertions", program.assertions);
  if (root.optional("size_assertions").exists())
    read_all(root, "size_assertions", program.size_assertions);
  return program;
}

[[noreturn]] void fail_json(const char *code, std::string message, const std::string &label,
                            std::string place = "") {
  throw UserError(ExitCode::bad_input,
                  Diagnostic{code, std::move(message), label, std::move(place), "", "",
                             "compile the graph again; the file was cut or edited"});
}

/// What a parsed program no longer shows: keys that stand twice in an object (either value could be
/// meant), and depth. The parser's own callback would look through all elements after each.
class TextCheck {
public:
  explicit TextCheck(const std::string &label) : label_(label) {}
  bool start_object(size_t) {
    keys_.emplace_back();
    return enter();
  }
  bool end_object() {
    keys_.pop_back();
    return leave();
  }
  bool start_array(size_t) { return enter(); }
  bool end_array() { return leave(); }
  bool key(std::string &name) {
    if (!keys_.back().insert(name).second)
      fail_json("TSC-P002", "the key " + in_quotes(name) + " stands twice in one object", label_);
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
    return false; // parsing it says where
  }

private:
  static constexpr size_t kMaxDepth = 32; // a program nests six deep
  const std::string &label_;
  std::vector<std::set<std::string>> keys_;
  size_t depth_ = 0;
  bool enter() {
    if (++depth_ > kMaxDepth)
      fail_json("TSC-P002",
                "the JSON is nested more than " + std::to_string(kMaxDepth) + " levels deep",
                label_);
    return true;
  }
  bool leave() {
    --depth_;
    return true;
  }
};

Json parse(std::string_view text, const std::string &label) {
  TextCheck check(label);
  try {
    Json::sax_parse(text, &check);
    return Json::parse(text);
  } catch (const Json::parse_error &error) {
    fail_json("TSC-P002", "this is not JSON", label, "byte " + std::to_string(error.byte));
  } catch (const Json::out_of_range &) {
    fail_json("TSC-P002", "a number of the JSON is beyond the range of a double", label);
  }
}

} // namespace

Program from_json(std::string_view text, const std::string &label) {
  Json json = parse(text, label);
  try {
    Program program = read_program(Cursor{&json});
    validate(program, label);
    return program;
  } catch (const UserError &error) {
    throw error.with_file(label);
  }
}

} // namespace tsc::program
