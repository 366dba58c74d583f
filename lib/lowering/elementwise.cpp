// Elementwise operators: operands converted to the dtype of computation, broadcast, computed.
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "support/diagnostic.h"

#include <array>
#include <utility>

namespace tsc::lowering {

namespace {

/// What PyTorch does with a number beside a tensor of 16-bit floats where its last bits decide.
enum class NumberIs : uint8_t {
  computed, ///< f32, as in the arithmetic and, on the CPU, in divisions that round
  stored,   ///< rounded to the tensor's dtype first, as in comparisons and remainders on the CPU
};

/// The argument in `dtype`; a number becomes a constant of that dtype.
TensorValue computed_argument(Context &context, const ops::Call &call, std::string_view parameter,
                              DType dtype, bool discontinuous, NumberIs number) {
  const graph::Argument &argument = call[parameter];
  if (argument.node() == nullptr && !std::holds_alternative<Expr>(argument.value)) {
    tensor::Scalar value = call.scalar(parameter);
    if (number == NumberIs::stored && tensor::is_reduced_float(dtype))
      value = tensor::cast_scalar(value, dtype);
    return tensor_of(context, constant_loop(context, value, dtype));
  }
  TensorValue value = tensor_value(context, call, argument);
  if (discontinuous)
    value = rounded(context, value);
  return convert(context, value, dtype);
}

/// PyTorch's meaning of arithmetic on bools.
Op boolean_form(Op op) {
  switch (op) {
  case Op::add:
  case Op::maximum:
  case Op::bitwise_or:
    return Op::logical_or;
  case Op::mul:
  case Op::minimum:
  case Op::bitwise_and:
    return Op::logical_and;
  case Op::bitwise_xor:
    return Op::logical_xor;
  case Op::bitwise_not:
    return Op::logical_not;
  default:
    return op;
  }
}

/// op(parameters...), computed in `dtype`, converted to the result's dtype.
TensorValue compute(Context &context, const ops::Call &call, Op op, DType dtype, bool discontinuous,
                    NumberIs number, std::span<const std::string_view> parameters) {
  const graph::TensorMeta &result = result_meta(context);
  std::vector<Operand> operands;
  for (std::string_view parameter : parameters) {
    const TensorValue value =
        computed_argument(context, call, parameter, dtype, discontinuous, number);
    realize_for_broadcast(context, *value.storage, result.layout.sizes);
    operands.push_back(broadcast_operand(context, value, result.layout.sizes));
  }
  // Comparisons and their kin say bool themselves; everything else yields the dtype it computes in.
  const bool yields_bool =
      result.dtype == DType::boolean && (discontinuous || dtype == DType::boolean);
  const DType yielded = yields_bool ? DType::boolean : dtype;
  const LoopId loop = elementwise(context, dtype == DType::boolean ? boolean_form(op) : op, yielded,
                                  result.layout.sizes, std::move(operands));
  return convert(context, tensor_of(context, loop), result.dtype);
}

/// The operands are the first parameters of the schema, whatever their names. Half types are
/// rounded before an operation that jumps.
Lowering lowering_of(Op op) {
  return [op](Context &context, const ops::Call &call) -> NodeValue {
    const bool discontinuous = ir::jumps(op);
    std::vector<std::string_view> parameters;
    for (size_t i = 0; i < static_cast<size_t>(ir::operand_count(op)); ++i)
      parameters.push_back(call.schema().parameters[i].name);
    return compute(context, call, op, ops::computation_dtype(call), discontinuous,
                   discontinuous ? NumberIs::stored : NumberIs::computed, parameters);
  };
}

NodeValue div_mode(Context &context, const ops::Call &call) {
  static constexpr std::array<std::string_view, 2> kParameters = {"self", "other"};
  const std::optional<std::string> mode = call.string("rounding_mode");
  const DType dtype = ops::computation_dtype(call);
  if (!mode)
    return compute(context, call, Op::truediv, dtype, false, NumberIs::computed, kParameters);
  const Op op = *mode == "floor" ? Op::floordiv : Op::truncdiv;
  return compute(context, call, op, dtype, true, NumberIs::computed, kParameters);
}

NodeValue where(Context &context, const ops::Call &call) {
  const graph::TensorMeta &result = result_meta(context);
  const TensorValue condition =
      convert(context, tensor_argument(context, call, "condition"), DType::boolean);
  const TensorValue chosen =
      computed_argument(context, call, "self", result.dtype, false, NumberIs::computed);
  const TensorValue other =
      computed_argument(context, call, "other", result.dtype, false, NumberIs::computed);
  std::vector<Operand> operands;
  for (const TensorValue *value : {&condition, &chosen, &other})
    operands.push_back(broadcast_operand(context, *value, result.layout.sizes));
  return tensor_of(context, elementwise(context, Op::where, result.dtype, result.layout.sizes,
                                        std::move(operands)));
}

NodeValue convert_element_type(Context &context, const ops::Call &call) {
  return convert(context, tensor_argument(context, call, "a"), result_meta(context).dtype);
}

NodeValue bitcast(Context &context, const ops::Call &call) {
  TensorValue value = tensor_argument(context, call, "self");
  const DType dtype = result_meta(context).dtype;
  if (dtype == value.dtype)
    return value;
  value = rounded(context, value);
  LoopNode node;
  node.op = Op::to_dtype_bitcast;
  node.dtype = dtype;
  node.source_dtype = value.dtype;
  node.sizes = value.sizes;
  node.operands = {operand_of(context, value)};
  return tensor_of(context, add_loop(context, std::move(node)));
}

/// A copy: the elements are computed where the copy is read, or stored where that is decided.
NodeValue clone(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  const Operand operand = operand_of(context, value);
  const bool plain = operand.index == identity_index(value.sizes.size());
  TensorValue result = tensor_of(
      context, plain ? operand.node : view_loop(context, value.dtype, value.sizes, operand));
  result.sizes = result.storage->sizes = value.sizes;
  return result;
}

} // namespace

void add_elementwise(Registry &registry) {
  // What the table of operations names; the others below have parameters of their own.
  for (size_t i = 0; i < static_cast<size_t>(Op::where); ++i) {
    const Op op = static_cast<Op>(i);
    registry[ir::op_name(op)] = lowering_of(op);
  }
  registry["div_mode"] = div_mode;
  registry["where"] = where;
}

void add_conversions(Registry &registry) {
  registry["convert_element_type"] = convert_element_type;
  registry["bitcast"] = bitcast;
  registry["clone"] = clone;
}

} // namespace tsc::lowering
