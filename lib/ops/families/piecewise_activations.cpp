// Activations that choose between pieces of lines: thresholds, shrinking, learned slopes.
#include "ops/families/piecewise_activations.h"

#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/whole_numbers.h"

#include <cmath>

namespace tsc::ops {
namespace {

/// The largest number of a 16-bit `dtype` that is at most `bound`, which is taken in f32: so one
/// compares with a number that is not rounded to the dtype.
double rounded_down(DType dtype, double bound) {
  const double wide = tensor::to_double(tensor::cast_scalar(bound, DType::f32));
  double result = tensor::to_double(tensor::cast_scalar(bound, dtype));
  // Far below half a unit in the last place, also of the smallest numbers.
  for (double step = std::fabs(wide) * 0x1p-13 + 0x1p-140; result > wide; step *= 2)
    result = tensor::to_double(tensor::cast_scalar(wide - step, dtype));
  return result;
}

/// x above 0, weight * x below.
Argument sloped(GraphBuilder &builder, const Argument &self, const Argument &weight, DType dtype) {
  Argument x = widen(builder, self);
  Argument positive = builder.call("aten.gt.Tensor", {x, 0});
  Argument scaled = builder.call(kMul, {x, weight});
  return convert(builder, builder.call(kWhere, {positive, x, scaled}), dtype);
}

/// One slope for all, or one a channel (the second dimension).
Argument prelu(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self"), weight = call.tensor("weight");
  Expr count = symbolic::numel(weight.layout.sizes);
  size_t rank = self.layout.rank();
  Expr channels = rank > 1 ? self.layout.sizes[1] : Expr(1);
  if (!count.is_integer(1) && !same_size(count, channels, call.ranges()))
    call.fail("TSC-O101",
              "aten.prelu: " + symbolic::print(count) + " slopes for " + symbolic::print(channels) +
                  " channels",
              "pass one slope, or one a channel");
  std::vector<Expr> sizes(rank, Expr(1));
  if (rank > 1)
    sizes[1] = count;
  Argument slopes = builder.call("aten.reshape.default", {call["weight"], sizes_argument(sizes)});
  return sloped(builder, call["self"], slopes, self.dtype);
}

/// 0 within [-lambd, lambd], x outside; NaN stays.
Argument hard_shrink(GraphBuilder &builder, const Call &call) {
  double bound = call.number("lambd");
  Argument above = builder.call("aten.ge.Tensor", {call["self"], -bound});
  Argument below = builder.call("aten.le.Tensor", {call["self"], bound});
  Argument within = builder.call("aten.logical_and.default", {above, below});
  return builder.call(kWhere, {within, 0.0, call["self"]});
}

/// The same, and lambd nearer to 0 outside.
Argument soft_shrink(GraphBuilder &builder, const Call &call) {
  DType dtype = call.tensor("self").dtype;
  double bound = call.number("lambd");
  Argument x = widen(builder, call["self"]);
  Argument above = builder.call("aten.gt.Tensor", {x, bound});
  Argument below = builder.call("aten.lt.Tensor", {x, -bound});
  Argument lowered = builder.call(kSub, {x, bound});
  Argument raised = builder.call(kAdd, {x, bound});
  Argument inner = builder.call(kMul, {x, 0.0}); // NaN stays
  Argument result = builder.call(kWhere, {below, raised, inner});
  return convert(builder, builder.call(kWhere, {above, lowered, result}), dtype);
}

} // namespace

Argument above_threshold(GraphBuilder &builder, const Call &call, const Argument &above,
                         const Argument &below) {
  const DType dtype = call.tensor("self").dtype;
  Argument bound = call["threshold"];
  if (tensor::is_integral(dtype))
    bound = number_of_dtype(call, "threshold", dtype);
  else if (tensor::is_reduced_float(dtype))
    bound = rounded_down(dtype, call.number("threshold"));
  Argument small = builder.call("aten.le.Tensor", {call["self"], bound});
  return builder.call(kWhere, {small, below, above});
}

void add_piecewise_activations(Table &table) {
  table.add_with_in_place("threshold(Tensor self, Scalar threshold, Scalar value) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const DType dtype = call.tensor("self").dtype;
        const bool is_whole = tensor::is_integral(dtype); // numbers are cut off
        return above_threshold(builder, call, call["self"],
                               is_whole ? number_of_dtype(call, "value", dtype) : call["value"]);
      });
  table.add("prelu(Tensor self, Tensor weight) -> Tensor").decompose(prelu);
  table.add("_prelu_kernel(Tensor self, Tensor weight) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return sloped(builder, call["self"], call["weight"], call.tensor("self").dtype);
      });
  table.add("hardshrink(Tensor self, Scalar lambd=0.5) -> Tensor").decompose(hard_shrink);
  table.add("softshrink(Tensor self, Scalar lambd=0.5) -> Tensor").decompose(soft_shrink);
  table.add("log_sigmoid_forward(Tensor self) -> (Tensor output, Tensor buffer)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const TensorMeta self = call.tensor("self");
        Argument output = builder.call("aten.log_sigmoid.default", {call["self"]});
        Argument buffer; // what the backward pass would compute again: on a CPU alone
        if (self.device.type == tensor::DeviceType::cpu)
          buffer = builder.call("aten.exp.default",
                                {builder.call("aten.neg.default",
                                              {builder.call("aten.abs.default", {call["self"]})})});
        else
          buffer = builder.call("aten.full.default", {Arguments{0}, 0.0},
                                {{"dtype", self.dtype}, {"device", self.device}});
        return Arguments{output, buffer};
      });
}

} // namespace tsc::ops
