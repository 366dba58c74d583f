#include "graph/export_values.h"
#include "graph/graph_json.h"
#include "graph/sympy_text.h"
#include "support/text.h"

#include <charconv>
#include <limits>

namespace tsc::graph {

using support::UserError;

namespace {

struct InputKindRow {
  InputKind kind;
  std::string_view name;
};
constexpr InputKindRow kInputKinds[] = {
    {InputKind::user, "user"},
    {InputKind::parameter, "parameter"},
    {InputKind::buffer, "buffer"},
    {InputKind::constant_tensor, "constant"},
    {InputKind::token, "token"},
    {InputKind::custom_object, "custom_object"},
    {InputKind::random_state, "random_state"},
    {InputKind::failure, "failure"},
};
struct OutputKindRow {
  OutputKind kind;
  std::string_view name;
};
constexpr OutputKindRow kOutputKinds[] = {
    {OutputKind::user, "user"},
    {OutputKind::buffer_mutation, "buffer_mutation"},
    {OutputKind::input_mutation, "input_mutation"},
    {OutputKind::parameter_mutation, "parameter_mutation"},
    {OutputKind::token, "token"},
    {OutputKind::loss, "loss"},
    {OutputKind::gradient, "gradient"},
};
struct MemoryFormatRow {
  MemoryFormat format;
  std::string_view name;
};
constexpr MemoryFormatRow kMemoryFormats[] = {
    {MemoryFormat::contiguous, "contiguous_format"},
    {MemoryFormat::channels_last, "channels_last"},
    {MemoryFormat::channels_last_3d, "channels_last_3d"},
    {MemoryFormat::preserve, "preserve_format"},
};

DType read_dtype(const JsonValue &value) {
  std::string name(expect_string(value));
  if (std::optional<DType> dtype = tensor::parse_dtype(name))
    return *dtype;
  std::vector<std::string> known;
  for (auto d = static_cast<int>(DType::boolean); d <= static_cast<int>(DType::c128); ++d)
    known.emplace_back(tensor::torch_name(static_cast<DType>(d)).substr(6));
  std::string near = support::did_you_mean(name, known);
  fail_at(value, "TSC-G012", "unknown dtype '" + name + "'",
          near.empty() ? "dtypes are " + support::join(known, ", ")
                       : "did you mean '" + near + "'?");
}

Device read_device(const JsonValue &value) {
  std::string_view text = expect_string(value);
  std::string_view type = text.substr(0, text.find(':'));
  Device device;
  if (type == "cuda")
    device.type = tensor::DeviceType::cuda;
  else if (type == "cpu")
    device.type = tensor::DeviceType::cpu;
  else if (type == "meta")
    device.type = tensor::DeviceType::meta;
  else
    fail_at(value, "TSC-G019", "the device '" + std::string(text) + "' is not supported",
            "devices are 'cpu', 'meta', 'cuda' and 'cuda:N'");
  if (type.size() == text.size())
    return device;
  std::string_view number = text.substr(type.size() + 1);
  int16_t index = 0;
  auto parsed = std::from_chars(number.data(), number.data() + number.size(), index);
  if (parsed.ec != std::errc() || parsed.ptr != number.data() + number.size() || index < 0)
    fail_at(value, "TSC-G019", "the device '" + std::string(text) + "' has no valid index");
  device.index = index;
  return device;
}

double read_non_finite(const JsonValue &value) {
  std::string_view text = expect_string(value);
  if (text == "inf")
    return std::numeric_limits<double>::infinity();
  if (text == "-inf")
    return -std::numeric_limits<double>::infinity();
  if (text == "nan")
    return std::numeric_limits<double>::quiet_NaN();
  fail_at(value, "TSC-G006", "expected 'inf', '-inf' or 'nan', found '" + std::string(text) + "'");
}

double read_double(const JsonValue &value) {
  return value.kind == JsonKind::string ? read_non_finite(value) : expect_number(value);
}

} // namespace

std::string_view input_kind_name(InputKind kind) {
  for (const InputKindRow &row : kInputKinds)
    if (row.kind == kind)
      return row.name;
  return {};
}
std::string_view output_kind_name(OutputKind kind) {
  for (const OutputKindRow &row : kOutputKinds)
    if (row.kind == kind)
      return row.name;
  return {};
}
std::optional<InputKind> parse_input_kind(std::string_view name) {
  for (const InputKindRow &row : kInputKinds)
    if (row.name == name && row.kind != InputKind::random_state &&
        row.kind != InputKind::failure) // the passes make it
      return row.kind;
  return std::nullopt;
}
std::optional<OutputKind> parse_output_kind(std::string_view name) {
  for (const OutputKindRow &row : kOutputKinds)
    if (row.name == name)
      return row.kind;
  return std::nullopt;
}
std::string_view memory_format_json_name(MemoryFormat format) {
  for (const MemoryFormatRow &row : kMemoryFormats)
    if (row.format == format)
      return row.name;
  return {};
}

bool is_listed(DType dtype) { return !tensor::is_complex(dtype) && !tensor::is_float8(dtype); }

bool GraphJsonValues::is_declared(const std::string &symbol) const {
  for (const GraphJsonValues *graph = this; graph != nullptr; graph = graph->outer)
    if (graph->symbols.count(symbol) != 0)
      return true;
  return false;
}

Expr GraphJsonValues::read_expression(const JsonValue &value) const {
  if (value.kind == JsonKind::integer)
    return value.integer;
  if (value.kind != JsonKind::string)
    fail_at(value, "TSC-G006", "expected an integer or the text of a size expression");
  Expr expression;
  try {
    expression = parse_sympy(value.string, [&](std::string_view name) -> std::optional<Expr> {
      if (!is_declared(std::string(name)))
        fail_at(value, "TSC-G010", "the symbol '" + std::string(name) + "' is not declared",
                "add it to 'symbols' with its range");
      return names->symbol_of(name);
    });
  } catch (const UserError &error) {
    std::vector<support::Diagnostic> diagnostics = error.diagnostics();
    for (support::Diagnostic &diagnostic : diagnostics)
      if (diagnostic.place.empty())
        diagnostic.place = json_pointer(value);
    throw UserError(error.exit_code(), std::move(diagnostics));
  }
  return expression;
}

std::vector<Expr> GraphJsonValues::read_expressions(const JsonValue &value) const {
  std::vector<Expr> expressions;
  expressions.reserve(expect_array(value).count);
  for (const JsonValue &element : value)
    expressions.push_back(read_expression(element));
  return expressions;
}

TensorMeta GraphJsonValues::read_tensor(const JsonValue &value) const {
  expect_only_keys(value, {"dtype", "size", "stride", "offset", "device", "requires_grad"});
  TensorMeta meta;
  meta.dtype = read_dtype(member(value, "dtype"));
  const JsonValue &size = member(value, "size");
  meta.layout.sizes = read_expressions(size);
  check_tensor_size(size, meta);
  if (const JsonValue *stride = optional_member(value, "stride")) {
    meta.layout.strides = read_expressions(*stride);
    if (meta.layout.strides.size() != meta.layout.sizes.size())
      fail_at(*stride, "TSC-G015",
              "a tensor of " + std::to_string(meta.layout.sizes.size()) + " sizes has " +
                  std::to_string(meta.layout.strides.size()) + " strides");
  } else {
    meta.layout.strides = tensor::contiguous_strides(meta.layout.sizes);
  }
  if (const JsonValue *offset = optional_member(value, "offset"))
    meta.layout.offset = read_expression(*offset);
  check_tensor_strides(value, meta);
  if (const JsonValue *device = optional_member(value, "device"))
    meta.device = read_device(*device);
  if (const JsonValue *flag = optional_member(value, "requires_grad"))
    meta.requires_grad = expect_boolean(*flag);
  return meta;
}

Value GraphJsonValues::read_value(const JsonValue &value) const {
  if (value.kind == JsonKind::null)
    return Value{None{}};
  if (value.kind == JsonKind::array) {
    Value::List list;
    for (const JsonValue &element : value)
      list.push_back(read_value(element));
    return Value{std::move(list)};
  }
  if (expect_object(value).find("dtype") != nullptr)
    return Value{read_tensor(value)};
  const JsonValue &choice = expect_union(value);
  if (choice.key == "int")
    return Value{read_expression(choice)};
  if (choice.key == "float")
    return Value{read_double(choice)};
  if (choice.key == "bool")
    return Value{expect_boolean(choice)};
  if (choice.key == "string")
    return Value{std::string(expect_string(choice))};
  if (choice.key == "custom_object")
    return Value{CustomObject{"", std::string(expect_string(choice))}};
  fail_at(choice, "TSC-G007", "the kind of value '" + std::string(choice.key) + "' is not known",
          "values are tensors (dtype, size, ...), int, float, bool, string, custom_object, null or "
          "a list");
}

Argument GraphJsonValues::read_tagged(const JsonValue &value) const {
  const JsonValue &choice = expect_union(value);
  if (choice.key == "node")
    return lookup_(choice);
  if (choice.key == "expr") {
    Expr expression = read_expression(choice);
    // An integer is never stored as an expression.
    return expression.is_integer() ? Argument(expression.value()) : Argument(expression);
  }
  if (choice.key == "float")
    return read_double(choice);
  if (choice.key == "dtype")
    return read_dtype(choice);
  if (choice.key == "device")
    return read_device(choice);
  if (choice.key == "layout")
    return TensorLayoutKind{"torch." + std::string(expect_string(choice))};
  if (choice.key == "memory_format") {
    for (const MemoryFormatRow &row : kMemoryFormats)
      if (row.name == expect_string(choice))
        return row.format;
    fail_at(choice, "TSC-G007", "the memory format '" + std::string(choice.string) + "' is unknown",
            "it is contiguous_format, channels_last, channels_last_3d or preserve_format");
  }
  if (choice.key == "graph") {
    std::string name(expect_string(choice));
    if (subgraphs.count(name) == 0)
      fail_at(choice, "TSC-G010", "there is no subgraph '" + name + "'");
    return GraphRef{name};
  }
  return read_structured(choice);
}

Argument GraphJsonValues::read_structured(const JsonValue &choice) const {
  if (choice.key == "complex") {
    if (expect_array(choice).count != 2)
      fail_at(choice, "TSC-G006", "a complex number is [real, imaginary]");
    return Complex{read_double(choice.begin()[0]), read_double(choice.begin()[1])};
  }
  if (choice.key == "custom_object") {
    expect_only_keys(choice, {"name", "class"});
    return CustomObject{std::string(expect_name(member(choice, "name"))),
                        std::string(expect_string(member(choice, "class")))};
  }
  if (choice.key == "dict") {
    Argument::Dictionary dictionary;
    for (const JsonValue &entry : expect_object(choice))
      dictionary.entries.emplace_back(std::string(entry.key), read_argument(entry));
    return dictionary;
  }
  fail_at(choice, "TSC-G007", "the kind of argument '" + std::string(choice.key) + "' is not known",
          "it is node, expr, float, complex, dtype, device, layout, memory_format, graph, dict or "
          "custom_object");
}

Argument GraphJsonValues::read_argument(const JsonValue &value) const {
  switch (value.kind) {
  case JsonKind::null:
    return None{};
  case JsonKind::boolean:
    return value.boolean;
  case JsonKind::integer:
    return value.integer;
  case JsonKind::number:
    return value.number;
  case JsonKind::string:
    return std::string(value.string);
  case JsonKind::object:
    return read_tagged(value);
  case JsonKind::array:
    break;
  }
  Argument::List list;
  list.reserve(value.count);
  for (const JsonValue &element : value)
    list.push_back(read_argument(element));
  return list;
}

} // namespace tsc::graph
