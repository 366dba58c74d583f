// Elementwise operators: operands converted to the dtype of computation, broadcast, computed.
#include "lowering/build.h"
#include "lowering/registry.h"
#include "support/diagnostic.h"

#include <array>
#include <utility>

namespace tsc::lowering {

namespace {

struct ElementwiseKey {
  std::string_view key;
  Op op;
  /// The result jumps where the operands' rounding decides: half types are rounded first.
  bool discontinuous = false;
};

constexpr std::array kUnary = {
    ElementwiseKey{"abs", Op::abs},
    ElementwiseKey{"acos", Op::acos},
    ElementwiseKey{"acosh", Op::acosh},
    ElementwiseKey{"asin", Op::asin},
    ElementwiseKey{"asinh", Op::asinh},
    ElementwiseKey{"atan", Op::atan},
    ElementwiseKey{"atanh", Op::atanh},
    ElementwiseKey{"bitwise_not", Op::bitwise_not},
    ElementwiseKey{"ceil", Op::ceil, true},
    ElementwiseKey{"cos", Op::cos},
    ElementwiseKey{"cosh", Op::cosh},
    ElementwiseKey{"erf", Op::erf},
    ElementwiseKey{"erfc", Op::erfc},
    ElementwiseKey{"exp", Op::exp},
    ElementwiseKey{"exp2", Op::exp2},
    ElementwiseKey{"expm1", Op::expm1},
    ElementwiseKey{"floor", Op::floor, true},
    ElementwiseKey{"isinf", Op::isinf, true},
    ElementwiseKey{"isnan", Op::isnan, true},
    ElementwiseKey{"lgamma", Op::lgamma},
    ElementwiseKey{"log", Op::log},
    ElementwiseKey{"log10", Op::log10},
    ElementwiseKey{"log1p", Op::log1p},
    ElementwiseKey{"log2", Op::log2},
    ElementwiseKey{"logical_not", Op::logical_not, true},
    ElementwiseKey{"neg", Op::neg},
    ElementwiseKey{"reciprocal", Op::reciprocal},
    ElementwiseKey{"relu", Op::relu},
    ElementwiseKey{"round", Op::round, true},
    ElementwiseKey{"rsqrt", Op::rsqrt},
    ElementwiseKey{"sigmoid", Op::sigmoid},
    ElementwiseKey{"sign", Op::sign, true},
    ElementwiseKey{"signbit", Op::signbit, true},
    ElementwiseKey{"sin", Op::sin},
    ElementwiseKey{"sinh", Op::sinh},
    ElementwiseKey{"sqrt", Op::sqrt},
    ElementwiseKey{"tan", Op::tan},
    ElementwiseKey{"tanh", Op::tanh},
    ElementwiseKey{"trunc", Op::trunc, true},
};

constexpr std::array kBinary = {
    ElementwiseKey{"add", Op::add},
    ElementwiseKey{"atan2", Op::atan2},
    ElementwiseKey{"bitwise_and", Op::bitwise_and},
    ElementwiseKey{"bitwise_left_shift", Op::bitwise_left_shift},
    ElementwiseKey{"bitwise_or", Op::bitwise_or},
    ElementwiseKey{"bitwise_right_shift", Op::bitwise_right_shift},
    ElementwiseKey{"bitwise_xor", Op::bitwise_xor},
    ElementwiseKey{"copysign", Op::copysign},
    ElementwiseKey{"eq", Op::eq, true},
    ElementwiseKey{"fmod", Op::fmod, true},
    ElementwiseKey{"ge", Op::ge, true},
    ElementwiseKey{"gt", Op::gt, true},
    ElementwiseKey{"hypot", Op::hypot},
    ElementwiseKey{"le", Op::le, true},
    ElementwiseKey{"logical_and", Op::logical_and, true},
    ElementwiseKey{"logical_or", Op::logical_or, true},
    ElementwiseKey{"logical_xor", Op::logical_xor, true},
    ElementwiseKey{"lt", Op::lt, true},
    ElementwiseKey{"maximum", Op::maximum},
    ElementwiseKey{"minimum", Op::minimum},
    ElementwiseKey{"mod", Op::mod, true},
    ElementwiseKey{"mul", Op::mul},
    ElementwiseKey{"ne", Op::ne, true},
    ElementwiseKey{"nextafter", Op::nextafter, true},
    ElementwiseKey{"sub", Op::sub},
    ElementwiseKey{"truediv", Op::truediv},
};

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

Lowering lowering_of(ElementwiseKey entry, std::vector<std::string_view> parameters) {
  return [entry, parameters = std::move(parameters)](Context &context,
                                                     const ops::Call &call) -> NodeValue {
    return compute(context, call, entry.op, ops::computation_dtype(call), entry.discontinuous,
                   entry.discontinuous ? NumberIs::stored : NumberIs::computed, parameters);
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
  if (tensor::is_reduced_float(dtype) || tensor::is_reduced_float(value.dtype)) {
    throw support::UserError(support::ExitCode::unsupported,
                             {.code = "TSC-K002",
                              .message = "kernels cannot reinterpret the bits of 16-bit floats",
                              .node = call.node().name,
                              .next_step = "view the tensor with a 32-bit type"});
  }
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
  for (const ElementwiseKey &entry : kUnary)
    registry[entry.key] = lowering_of(entry, {"self"});
  for (const ElementwiseKey &entry : kBinary)
    registry[entry.key] = lowering_of(entry, {"self", "other"});
  registry["pow"] = lowering_of({"pow", Op::pow}, {"self", "exponent"});
  registry["div_mode"] = div_mode;
  registry["where"] = where;
}

void add_conversions(Registry &registry) {
  registry["convert_element_type"] = convert_element_type;
  registry["bitcast"] = bitcast;
  registry["clone"] = clone;
}

} // namespace tsc::lowering
