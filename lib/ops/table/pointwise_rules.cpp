#include "ops/table/pointwise_rules.h"

namespace tsc::ops {

ShapeRule elementwise(Promotion promotion, std::initializer_list<std::string_view> operands) {
  std::vector<std::string_view> names(operands);
  return [promotion, names](const Call &call) {
    std::vector<ElementwiseOperand> all;
    for (std::string_view name : names)
      for (const ElementwiseOperand &operand : elementwise_operands(call, {name}))
        all.push_back(operand);
    DType dtype = promote_operands(all);
    if (promotion == Promotion::floating)
      dtype = to_floating(dtype);
    if (promotion == Promotion::boolean)
      dtype = DType::boolean;
    return elementwise_value(call, all, dtype);
  };
}

DType computation_dtype(const Call &call) {
  std::vector<ElementwiseOperand> operands;
  for (const Parameter &parameter : call.schema().parameters) {
    bool operand =
        parameter.type == "Tensor" || parameter.type == "Tensor?" || parameter.type == "Scalar";
    if (operand && parameter.name != "condition" && parameter.name != "alpha")
      for (const ElementwiseOperand &each : elementwise_operands(call, {parameter.name}))
        operands.push_back(each);
  }
  DType promoted = promote_operands(operands);
  const Value *value = call.node().value ? &*call.node().value : nullptr;
  if (value && value->tensor() && value->tensor()->dtype != DType::boolean)
    return value->tensor()->dtype;
  return promoted;
}

} // namespace tsc::ops
