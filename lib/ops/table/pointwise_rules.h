// Shape rules of elementwise operators, by how the dtype comes out.
#pragma once

#include "ops/table/shape_rules.h"

namespace tsc::ops {

enum class Promotion : uint8_t {
  common,   // the promoted dtype of the operands
  floating, // the same, integers and bool become f32
  boolean,  // computed in the promoted dtype, the result is bool
};
/// The rule for operands that are the schema's parameters of the given names.
ShapeRule elementwise(Promotion promotion, std::initializer_list<std::string_view> operands);

/// "aten.mul.Tensor" and the like as used by decompositions: numbers and tensors alike.
inline constexpr std::string_view kAdd = "aten.add.Tensor", kSub = "aten.sub.Tensor",
                                  kMul = "aten.mul.Tensor", kDiv = "aten.div.Tensor",
                                  kWhere = "aten.where.self",
                                  kConvert = "prims.convert_element_type.default";

} // namespace tsc::ops
