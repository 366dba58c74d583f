// Program -> program.json. Fields that have their default value are left out.
#include "program/names.h"
#include "program/program.h"
#include "program/step_fields.h"
#include "support/text.h"

#include <nlohmann/json.hpp>

#include <cmath>

namespace tsc::program {
namespace {

using Json = nlohmann::ordered_json;

Json expression(Expr e) {
  if (e.is_integer())
    return e.value();
  return symbolic::print(e);
}

Json expressions(const std::vector<Expr> &list) {
  Json result = Json::array();
  for (Expr e : list)
    result.push_back(expression(e));
  return result;
}

/// Leaves out what the reader takes as the default.
void set_unless(Json &object, const char *key, Expr value, int64_t default_value) {
  if (!value.is_integer(default_value))
    object[key] = expression(value);
}

/// JSON has no infinities and no NaN: those become text.
Json number(double value) {
  if (std::isfinite(value))
    return value;
  return support::python_repr(value);
}

Json write(const Symbol &symbol) {
  Json result = {{"name", symbol.symbol.spelling()}, {"low", symbol.low}};
  if (!symbol.name.empty())
    result["called"] = symbol.name;
  if (symbol.high != INT64_MAX)
    result["high"] = symbol.high;
  return result;
}

void write_layout(Json &object, const Layout &layout) {
  object["sizes"] = expressions(layout.sizes);
  object["strides"] = expressions(layout.strides);
  set_unless(object, "offset", layout.offset, 0);
}

Json write(const Buffer &buffer) {
  Json result = {{"name", buffer.name}, {"dtype", tensor::short_name(buffer.dtype)}};
  write_layout(result, buffer.layout);
  result["bytes"] = expression(buffer.bytes);
  result["role"] = kRoleNames[static_cast<size_t>(buffer.role)];
  if (buffer.alias_of >= 0)
    result["alias_of"] = buffer.alias_of;
  if (!buffer.weight.empty())
    result["weight"] = buffer.weight;
  if (buffer.mutated)
    result["mutated"] = true;
  if (buffer.is_complex)
    result["is_complex"] = true;
  return result;
}

Json write(const KernelParameter &parameter) {
  Json result = {{"kind", kParameterKindNames[static_cast<size_t>(parameter.kind)]},
                 {"name", parameter.name}};
  if (parameter.kind == KernelParameter::Kind::pointer) {
    result["dtype"] = tensor::short_name(parameter.dtype);
    if (!parameter.is_const)
      result["const"] = false;
  }
  return result;
}

Json write(const TensorMap &map) {
  Json result = {{"parameter", map.parameter},
                 {"sizes", expressions(map.sizes)},
                 {"strides", expressions(map.strides)},
                 {"box", map.box}};
  set_unless(result, "offset", map.offset, 0);
  if (!map.lower.empty())
    result["windows"] = {{"lower", map.lower}, {"upper", map.upper}, {"step", map.step}};
  if (map.tf32)
    result["tf32"] = true;
  return result;
}

Json write(const KernelVariant &variant) {
  Json grid = Json::array();
  Json block = Json::array();
  for (size_t axis = 0; axis < 3; ++axis) {
    grid.push_back(expression(variant.grid[axis]));
    block.push_back(variant.block[axis]);
  }
  Json result = {{"grid", grid}, {"block", block}};
  set_unless(result, "shared_bytes", variant.shared_bytes, 0);
  if (variant.has_barriers)
    result["has_barriers"] = true;
  if (variant.together)
    result["together"] = true;
  for (const TensorMap &map : variant.maps)
    result["maps"].push_back(write(map));
  result["text"] = variant.text;
  return result;
}

/// `share` is for readers.
Json write(const KernelEstimate &estimate) {
  Json result;
  for (const auto &[name, member] : kEstimateTimes)
    result[name] = estimate.*member;
  result["blocks"] = estimate.blocks;
  result["threads_in_flight"] = estimate.threads_in_flight;
  result["waves"] = estimate.waves;
  result["sectors"] = estimate.sectors;
  result["read_again"] = estimate.read_again;
  result["share"] = std::round(estimate.share() * 1000) / 1000;
  return result;
}

Json write(const Kernel &kernel) {
  Json parameters = Json::array();
  for (const KernelParameter &parameter : kernel.parameters)
    parameters.push_back(write(parameter));
  Json result = {{"name", kernel.name},
                 {"plan", kernel.plan},
                 {"origins", kernel.origins},
                 {"bytes_read", expression(kernel.bytes_read)},
                 {"bytes_written", expression(kernel.bytes_written)}};
  if (kernel.estimate.is_known)
    result["estimate"] = write(kernel.estimate);
  result["parameters"] = parameters;
  result["cuda"] = write(kernel.cuda);
  result["serial"] = write(kernel.serial);
  return result;
}

Json write(const Operand &operand) {
  Json result = {{"buffer", operand.buffer}};
  set_unless(result, "offset", operand.offset, 0);
  return result;
}

Json write(const MatrixOperand &operand) {
  Json result = {{"buffer", operand.buffer}};
  set_unless(result, "offset", operand.offset, 0);
  set_unless(result, "row_stride", operand.row_stride, 0);
  set_unless(result, "column_stride", operand.column_stride, 0);
  set_unless(result, "batch_stride", operand.batch_stride, 0);
  return result;
}

/// The fields of a step, in the table's order.
struct FieldWriter {
  Json *out;
  Json &at(std::string_view name) const { return (*out)[std::string(name)]; }

  void index(std::string_view name, uint32_t value) const { at(name) = value; }
  void integer(std::string_view name, int64_t value, int64_t, int64_t) const { at(name) = value; }
  void number(std::string_view name, double value) const { at(name) = program::number(value); }
  void flag(std::string_view name, bool value) const {
    if (value)
      at(name) = true;
  }
  void text(std::string_view name, const std::string &value) const { at(name) = value; }
  void label(std::string_view name, const std::string &value) const {
    if (!value.empty())
      at(name) = value;
  }
  void dtype(std::string_view name, DType value) const { at(name) = tensor::short_name(value); }
  void dtype(std::string_view name, const std::optional<DType> &value) const {
    if (value)
      dtype(name, *value);
  }
  template <class Word, size_t count>
  void word(std::string_view name, Word value,
            const std::array<std::string_view, count> &names) const {
    at(name) = names[static_cast<size_t>(value)];
  }
  void size(std::string_view name, Expr value, const char *) const {
    at(name) = program::expression(value);
  }
  void size_or(std::string_view name, Expr value, int64_t default_value, const char *) const {
    if (!value.is_integer(default_value))
      at(name) = program::expression(value);
  }
  void expression(std::string_view name, Expr value) const {
    at(name) = program::expression(value);
  }
  void expressions(std::string_view name, const std::vector<Expr> &values) const {
    if (!values.empty())
      at(name) = program::expressions(values);
  }
  void pointers(std::string_view name, const std::vector<Operand> &operands) const {
    Json &list = at(name) = Json::array();
    for (const Operand &operand : operands)
      list.push_back(write(operand));
  }
  template <class X> void reads(std::string_view name, const X &x) const { at(name) = write(x); }
  template <class X> void reads(std::string_view name, const std::optional<X> &x) const {
    if (x)
      reads(name, *x);
  }
  template <class X> void writes(std::string_view name, const X &x) const { reads(name, x); }
  template <class X> void predicate(std::string_view name, const X &x) const { reads(name, x); }
};

Json write(const Step &step) {
  Json result = {{"name", step.name}};
  result["kind"] = kStepKindNames[step.kind.index()];
  std::visit([&](const auto &kind) { visit_fields(kind, FieldWriter{&result}); }, step.kind);
  if (step.once)
    result["once"] = true;
  if (step.stream != 0)
    result["stream"] = step.stream;
  if (step.device != 0)
    result["device"] = step.device;
  if (!step.waits.empty())
    result["waits"] = step.waits;
  return result;
}

Json write(const InputInfo &input) {
  Json result = {{"name", input.name}, {"buffer", input.buffer}};
  if (input.mutated)
    result["mutated"] = true;
  if (input.value)
    result["value"] = expression(*input.value);
  return result;
}

Json write(const OutputInfo &output) {
  Json result = {{"name", output.name}};
  if (output.buffer < 0) {
    result["text"] = output.text;
    return result;
  }
  result["buffer"] = output.buffer;
  result["dtype"] = tensor::short_name(output.dtype);
  write_layout(result, output.layout);
  if (output.is_mutation)
    result["is_mutation"] = true;
  if (output.is_complex)
    result["is_complex"] = true;
  return result;
}

Json write(const Assertion &assertion) {
  return {{"message", assertion.message},
          {"node", assertion.node},
          {"source_line", assertion.source_line}};
}

Json write(const SizeAssertion &row) {
  Json result = write(row.assertion);
  result["condition"] = expression(row.condition);
  return result;
}

template <class Row> Json write_all(const std::vector<Row> &rows) {
  Json result = Json::array();
  for (const Row &row : rows)
    result.push_back(write(row));
  return result;
}

} // namespace

std::string to_json(const Program &program) {
  Json root = {{"format", kFormat},
               {"version", program.version},
               {"name", program.name},
               {"archs", program.archs},
               {"symbols", write_all(program.symbols)},
               {"inputs", write_all(program.inputs)},
               {"outputs", write_all(program.outputs)},
               {"buffers", write_all(program.buffers)},
               {"kernels", write_all(program.kernels)},
               {"steps", write_all(program.steps)}};
  if (!program.part.empty())
    root["part"] = program.part;
  if (program.structure)
    root["structure"] = Json::parse(tensor::to_json(*program.structure));
  if (!program.assertions.empty())
    root["assertions"] = write_all(program.assertions);
  if (!program.size_assertions.empty())
    root["size_assertions"] = write_all(program.size_assertions);
  // Source lines of the user may hold bytes that are not UTF-8: they are replaced, not refused.
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace tsc::program
