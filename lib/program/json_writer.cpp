// Program -> program.json. Fields that have their default value are left out.
#include "program/names.h"
#include "program/program.h"
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
  result["text"] = variant.text;
  return result;
}

Json write(const Kernel &kernel) {
  Json parameters = Json::array();
  for (const KernelParameter &parameter : kernel.parameters)
    parameters.push_back(write(parameter));
  return {{"name", kernel.name},
          {"plan", kernel.plan},
          {"origins", kernel.origins},
          {"bytes_read", expression(kernel.bytes_read)},
          {"bytes_written", expression(kernel.bytes_written)},
          {"parameters", parameters},
          {"cuda", write(kernel.cuda)},
          {"serial", write(kernel.serial)}};
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

void write_kind(Json &result, const Launch &launch) {
  Json pointers = Json::array();
  for (const Operand &operand : launch.pointers)
    pointers.push_back(write(operand));
  result["kind"] = "launch";
  result["kernel"] = launch.kernel;
  result["pointers"] = pointers;
  if (!launch.sizes.empty())
    result["sizes"] = expressions(launch.sizes);
}

void write_kind(Json &result, const Matmul &matmul) {
  result["kind"] = "matmul";
  result["dtype"] = tensor::short_name(matmul.dtype);
  set_unless(result, "batch", matmul.batch, 1);
  result["m"] = expression(matmul.m);
  result["n"] = expression(matmul.n);
  result["k"] = expression(matmul.k);
  result["a"] = write(matmul.a);
  result["b"] = write(matmul.b);
  if (matmul.c)
    result["c"] = write(*matmul.c);
  result["out"] = write(matmul.out);
  result["alpha"] = number(matmul.alpha);
  result["beta"] = number(matmul.beta);
}

void write_kind(Json &result, const Copy &copy) {
  result["kind"] = "copy";
  result["from"] = write(copy.from);
  result["to"] = write(copy.to);
  result["bytes"] = expression(copy.bytes);
}

void write_kind(Json &result, const Fill &fill) {
  result["kind"] = "fill";
  result["to"] = write(fill.to);
  result["bytes"] = expression(fill.bytes);
}

void write_kind(Json &result, const Collective &collective) {
  static constexpr std::array<std::string_view, 3> kReductions = {"sum", "avg", "max"};
  result["kind"] = "collective";
  if (collective.kind == Collective::Kind::all_gather) {
    result["collective"] = "all_gather";
  } else {
    result["collective"] = "reduce_scatter";
    result["reduction"] = kReductions[static_cast<size_t>(collective.reduction)];
  }
  result["dtype"] = tensor::short_name(collective.dtype);
  result["ranks"] = collective.ranks;
  result["group"] = collective.group;
  result["from"] = write(collective.from);
  result["to"] = write(collective.to);
  result["count"] = expression(collective.count);
}

void write_kind(Json &result, const Conditional &conditional) {
  result["kind"] = "conditional";
  if (conditional.predicate)
    result["predicate"] = write(*conditional.predicate);
  else
    result["condition"] = expression(conditional.condition);
  result["then_steps"] = conditional.then_steps;
  result["else_steps"] = conditional.else_steps;
}

void write_kind(Json &result, const WhileLoop &loop) {
  result["kind"] = "while_loop";
  result["predicate"] = write(loop.predicate);
  result["condition_steps"] = loop.condition_steps;
  result["body_steps"] = loop.body_steps;
}

Json write(const Step &step) {
  Json result = {{"name", step.name}};
  std::visit([&](const auto &kind) { write_kind(result, kind); }, step.kind);
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
  if (!program.assertions.empty())
    root["assertions"] = write_all(program.assertions);
  if (!program.size_assertions.empty())
    root["size_assertions"] = write_all(program.size_assertions);
  // Source lines of the user may hold bytes that are not UTF-8: they are replaced, not refused.
  return root.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

} // namespace tsc::program
