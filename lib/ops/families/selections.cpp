// where, masked_fill, clamp: one of several values.
#include "ops/table/builder.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

Value where_value(const Call &call) {
  DType dtype = promote_operands(elementwise_operands(call, {"self", "other"}));
  return elementwise_value(call, elementwise_operands(call, {"condition", "self", "other"}), dtype);
}

Argument masked_fill(GraphBuilder &builder, const Call &call) {
  // The value takes self's dtype.
  DType dtype = call.tensor("self").dtype;
  if (const TensorMeta *value = call.optional_tensor("value")) {
    if (value->layout.rank() != 0)
      call.fail("TSC-O048",
                call.node().target + " with a value of " + std::to_string(value->layout.rank()) +
                    " dimensions",
                "pass a number, or a tensor without dimensions");
    Argument converted = call["value"];
    if (value->dtype != dtype)
      converted = builder.call(kConvert, {converted, dtype});
    return builder.call(kWhere, {call["mask"], converted, call["self"]});
  }
  if (promote_operands(elementwise_operands(call, {"self", "value"})) == dtype)
    return builder.call(kWhere, {call["mask"], call["value"], call["self"]});
  Argument value = std::visit([](auto number) { return Argument(number); },
                              tensor::cast_scalar(call.scalar("value"), dtype));
  Argument chosen = builder.call(kWhere, {call["mask"], value, call["self"]});
  return builder.meta(chosen).dtype == dtype ? chosen : builder.call(kConvert, {chosen, dtype});
}

/// PyTorch's clamp with one number as its only bound compares, so a NaN bounds nothing; with both
/// bounds, and in clamp_min and clamp_max, a NaN makes every element NaN (TensorCompare.cpp).
bool is_nan_alone(const Call &call) {
  if (call.has("min") == call.has("max"))
    return false;
  const double *number = std::get_if<double>(&call[call.has("min") ? "min" : "max"].value);
  return number && std::isnan(*number);
}

/// Of -0.0 and 0.0 the second operand stays: beside a number that is the element, beside a tensor
/// the bound, as in PyTorch.
Argument bounded(GraphBuilder &builder, const Call &call, std::string_view bound,
                 const Argument &x) {
  std::string_view extreme = bound == "min" ? "aten.maximum.default" : "aten.minimum.default";
  if (call.optional_tensor(bound))
    return builder.call(extreme, {x, call[bound]});
  return builder.call(extreme, {call[bound], x});
}

Argument clamp(GraphBuilder &builder, const Call &call) {
  if (!call.has("min") && !call.has("max"))
    call.fail("TSC-O031", call.node().target + ": neither min nor max is given",
              "give one of them");
  DType dtype = promote_operands(elementwise_operands(call, {"self", "min", "max"}));
  Argument result = call["self"];
  if (call.tensor("self").dtype != dtype)
    result = builder.call(kConvert, {result, dtype});
  if (call.has("min") && !is_nan_alone(call))
    result = bounded(builder, call, "min", result);
  if (call.has("max") && !is_nan_alone(call))
    result = bounded(builder, call, "max", result);
  return result;
}

/// The operand that is not NaN wins.
Argument ignore_nan(GraphBuilder &builder, const Call &call, std::string_view compare) {
  Argument self = call["self"], other = call["other"];
  DType dtype = promote_operands(elementwise_operands(call, {"self", "other"}));
  std::string_view extreme = compare == "gt" ? "aten.maximum.default" : "aten.minimum.default";
  if (!tensor::is_floating(dtype))
    return builder.call(extreme, {self, other});
  Argument best = builder.call(extreme, {self, other});
  Argument self_nan = builder.call("aten.isnan.default", {self});
  Argument other_nan = builder.call("aten.isnan.default", {other});
  Argument without_other = builder.call(kWhere, {other_nan, self, best});
  return builder.call(kWhere, {self_nan, other, without_other});
}

Argument where(GraphBuilder &builder, const Call &call) {
  return builder.call(kWhere, {call["condition"], call["self"], call["other"]});
}

} // namespace

void add_selections(Table &table) {
  table.add("where.self(Tensor condition, Tensor self, Tensor other) -> Tensor")
      .shape(where_value)
      .lowers("where");
  table.add("where.ScalarSelf(Tensor condition, Scalar self, Tensor other) -> Tensor")
      .decompose(where);
  table.add("where.ScalarOther(Tensor condition, Tensor self, Scalar other) -> Tensor")
      .decompose(where);
  table.add("where.Scalar(Tensor condition, Scalar self, Scalar other) -> Tensor").decompose(where);
  table.add_with_in_place("masked_fill.Scalar(Tensor self, Tensor mask, Scalar value) -> Tensor")
      .decompose(contiguously(masked_fill));
  table.add_with_in_place("masked_fill.Tensor(Tensor self, Tensor mask, Tensor value) -> Tensor")
      .decompose(contiguously(masked_fill));
  table.add_with_in_place("clamp(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor")
      .decompose(clamp);
  table.add_with_in_place("clamp.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor")
      .decompose(clamp);
  table.add_with_in_place("clip(Tensor self, Scalar? min=None, Scalar? max=None) -> Tensor")
      .decompose(clamp);
  table.add_with_in_place("clip.Tensor(Tensor self, Tensor? min=None, Tensor? max=None) -> Tensor")
      .decompose(clamp);
  for (std::string_view bound : {"min", "max"}) {
    auto decomposition = [bound](GraphBuilder &builder, const Call &call) {
      return bounded(builder, call, bound, call["self"]);
    };
    std::string name = "clamp_" + std::string(bound), text(bound);
    table.add_with_in_place(keep_text(name + "(Tensor self, Scalar " + text + ") -> Tensor"))
        .decompose(decomposition);
    table.add_with_in_place(keep_text(name + ".Tensor(Tensor self, Tensor " + text + ") -> Tensor"))
        .decompose(decomposition);
  }
  table.add("max.other(Tensor self, Tensor other) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.maximum.default", {call["self"], call["other"]});
      });
  table.add("min.other(Tensor self, Tensor other) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.minimum.default", {call["self"], call["other"]});
      });
  table.add("fmax(Tensor self, Tensor other) -> Tensor")
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return ignore_nan(builder, call, "gt"); });
  table.add("fmin(Tensor self, Tensor other) -> Tensor")
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return ignore_nan(builder, call, "lt"); });
}

} // namespace tsc::ops
