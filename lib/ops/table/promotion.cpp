// Result dtypes, after c10::result_type.
#include "ops/table/shape_rules.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using OptionalType = std::optional<DType>;

OptionalType promote_optional(OptionalType a, OptionalType b) {
  if (!a || !b)
    return a ? a : b;
  return tensor::promote(*a, *b);
}

/// `higher` wins unless `lower` is of a higher category.
OptionalType combine_categories(OptionalType higher, OptionalType lower) {
  if (higher && (tensor::is_complex(*higher) ||
                 (tensor::is_floating(*higher) && !(lower && tensor::is_complex(*lower)))))
    return higher;
  if (higher == DType::boolean ||
      (lower && (tensor::is_floating(*lower) || tensor::is_complex(*lower))))
    return promote_optional(higher, lower);
  return higher ? higher : lower;
}

DType dtype_of_number(const tensor::Scalar &number) {
  if (std::holds_alternative<bool>(number))
    return DType::boolean;
  return std::holds_alternative<int64_t>(number) ? DType::i64 : DType::f32;
}

bool takes_number(const Call &call, std::string_view name) {
  const std::vector<Parameter> &parameters = call.schema().parameters;
  return std::any_of(parameters.begin(), parameters.end(), [&](const Parameter &parameter) {
    return parameter.name == name && parameter.type == "Scalar";
  });
}

} // namespace

std::vector<ElementwiseOperand>
elementwise_operands(const Call &call, std::initializer_list<std::string_view> names) {
  std::vector<ElementwiseOperand> operands;
  for (std::string_view name : names) {
    if (!call.has(name))
      continue;
    // Where the schema has a number, a tensor is one that sizes or the data decide.
    const TensorMeta *meta = call.optional_tensor(name);
    if (meta && (meta->is_number || takes_number(call, name))) {
      operands.push_back(
          {nullptr, meta->dtype == DType::boolean ? tensor::Scalar(true) : tensor::Scalar(1.0)});
    } else if (meta) {
      operands.push_back({meta, int64_t{0}});
    } else if (std::holds_alternative<graph::Complex>(call[name].value)) {
      static const TensorMeta complex_number{.dtype = DType::c64,
                                             .device = {tensor::DeviceType::cpu}};
      operands.push_back({&complex_number, int64_t{0}}); // promotes as a tensor of rank 0 does
    } else if (const Expr *expr = std::get_if<Expr>(&call[name].value)) {
      operands.push_back({nullptr, expr->as_integer().value_or(1)}); // only its kind matters
    } else {
      const Value *value = call.value_of(call[name]);
      bool symbolic_int = value && std::holds_alternative<Expr>(value->value);
      operands.push_back({nullptr, symbolic_int ? tensor::Scalar(int64_t{1}) : call.scalar(name)});
    }
  }
  return operands;
}

DType promote_operands(const std::vector<ElementwiseOperand> &operands) {
  OptionalType with_dims, zero_dim, numbers;
  for (const ElementwiseOperand &operand : operands)
    if (!operand.tensor)
      numbers = promote_optional(numbers, dtype_of_number(operand.number));
    else if (operand.tensor->layout.rank() == 0)
      zero_dim = promote_optional(zero_dim, operand.tensor->dtype);
    else
      with_dims = promote_optional(with_dims, operand.tensor->dtype);
  OptionalType result = combine_categories(with_dims, combine_categories(zero_dim, numbers));
  return result.value_or(DType::f32);
}

DType to_floating(DType dtype) { return tensor::is_integral(dtype, true) ? DType::f32 : dtype; }

DType accumulation_dtype(DType dtype) {
  return tensor::is_reduced_float(dtype) ? DType::f32 : dtype;
}

} // namespace tsc::ops
