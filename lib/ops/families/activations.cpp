// Activations of neural networks, from simpler operators. Reduced floats are computed in f32.
#include "ops/families/halves.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/whole_numbers.h"

#include <cmath>

namespace tsc::ops {
namespace {

/// A computation on the widened input whose result is narrowed again.
using Body = Argument (*)(GraphBuilder &, const Call &, const Argument &x);
Decomposition widened(Body body) {
  return [body](GraphBuilder &builder, const Call &call) {
    const TensorMeta self = call.tensor("self");
    Argument x = widen_to_floating(builder, call["self"]);
    return convert(builder, body(builder, call, x), to_floating(self.dtype));
  };
}

Argument gelu(GraphBuilder &builder, const Call &call, const Argument &x) {
  std::string approximate = call.string("approximate").value_or("none");
  if (approximate != "none" && approximate != "tanh")
    call.fail("TSC-O030", "aten.gelu: unknown approximation '" + approximate + "'",
              "use 'none' or 'tanh'");
  Argument half = builder.call(kMul, {x, 0.5});
  Argument curve;
  if (approximate == "none") {
    Argument scaled = builder.call(kMul, {x, 0.7071067811865476});
    curve = builder.call("aten.erf.default", {scaled});
  } else {
    Argument square = builder.call(kMul, {x, x});
    Argument cube = builder.call(kMul, {square, x});
    Argument scaled = builder.call(kMul, {cube, 0.044715});
    Argument sum = builder.call(kAdd, {x, scaled});
    Argument inner = builder.call(kMul, {sum, 0.7978845608028654});
    curve = builder.call("aten.tanh.default", {inner});
  }
  Argument shifted = builder.call(kAdd, {curve, 1.0});
  return builder.call(kMul, {half, shifted});
}

Argument silu(GraphBuilder &builder, const Call &, const Argument &x) {
  Argument gate = builder.call("aten.sigmoid.default", {x});
  return builder.call(kMul, {x, gate});
}

/// Of equal zeros it is x that stays, as in PyTorch: the second operand.
Argument clamp_between(GraphBuilder &builder, const Argument &x, const Argument &low,
                       const Argument &high) {
  Argument raised = builder.call("aten.maximum.default", {low, x});
  return builder.call("aten.minimum.default", {high, raised});
}

Argument leaky_relu(GraphBuilder &builder, const Call &call, const Argument &x) {
  Argument positive = builder.call("aten.gt.Tensor", {x, 0});
  Argument leak = builder.call(kMul, {x, call["negative_slope"]});
  return builder.call(kWhere, {positive, x, leak});
}

/// scale * (x > 0 ? x * input_factor : alpha * expm1(x * exponent_factor))
Argument exponential_unit(GraphBuilder &builder, const Argument &x, double alpha, double scale,
                          double input_scale) {
  Argument positive = builder.call("aten.gt.Tensor", {x, 0});
  Argument linear = builder.call(kMul, {x, scale});
  Argument scaled = input_scale == 1 ? x : builder.call(kMul, {x, input_scale});
  Argument exponential = builder.call("aten.expm1.default", {scaled});
  Argument curve = builder.call(kMul, {exponential, alpha * scale});
  return builder.call(kWhere, {positive, linear, curve});
}

Argument elu(GraphBuilder &builder, const Call &call, const Argument &x) {
  return exponential_unit(builder, x, call.number("alpha"), call.number("scale"),
                          call.number("input_scale"));
}
Argument celu(GraphBuilder &builder, const Call &call, const Argument &x) {
  double alpha = call.number("alpha");
  return exponential_unit(builder, x, alpha, 1, 1 / alpha);
}
Argument selu(GraphBuilder &builder, const Call &, const Argument &x) {
  return exponential_unit(builder, x, 1.6732632423543772848170429916717,
                          1.0507009873554804934193349852946, 1);
}

/// log1p(exp(x * beta)) / beta, x itself beyond the threshold.
Argument softplus_of(GraphBuilder &builder, const Argument &x, double beta, double threshold) {
  Argument scaled = beta == 1 ? x : builder.call(kMul, {x, beta});
  Argument exponential = builder.call("aten.exp.default", {scaled});
  Argument curve = builder.call("aten.log1p.default", {exponential});
  if (beta != 1)
    curve = builder.call(kDiv, {curve, beta});
  Argument linear = builder.call("aten.gt.Tensor", {scaled, threshold});
  return builder.call(kWhere, {linear, x, curve});
}
Argument softplus(GraphBuilder &builder, const Call &call, const Argument &x) {
  return softplus_of(builder, x, call.number("beta"), call.number("threshold"));
}
Argument mish(GraphBuilder &builder, const Call &, const Argument &x) {
  Argument soft = softplus_of(builder, x, 1, 20);
  Argument gate = builder.call("aten.tanh.default", {soft});
  return builder.call(kMul, {x, gate});
}

/// min(0, x) - log1p(exp(-|x|))
Argument log_sigmoid(GraphBuilder &builder, const Call &, const Argument &x) {
  Argument negative_part = builder.call("aten.minimum.default", {x, 0.0});
  Argument magnitude = builder.call("aten.abs.default", {x});
  Argument negated = builder.call("aten.neg.default", {magnitude});
  Argument exponential = builder.call("aten.exp.default", {negated});
  Argument tail = builder.call("aten.log1p.default", {exponential});
  return builder.call(kSub, {negative_part, tail});
}

/// log(x / (1 - x)), x first kept within [eps, 1 - eps] if eps is given; below eps
/// first, where they cross.
Argument logit(GraphBuilder &builder, const Call &call, const Argument &x) {
  Argument bounded = x;
  if (call.has("eps")) {
    const double epsilon = call.number("eps");
    const Argument lowered = builder.call("aten.minimum.default", {x, 1 - epsilon});
    const Argument below = builder.call("aten.lt.Scalar", {x, epsilon});
    bounded = builder.call(kWhere, {below, epsilon, lowered});
  }
  Argument rest = builder.call("aten.rsub.Scalar", {bounded, 1.0});
  Argument odds = builder.call(kDiv, {bounded, rest});
  return builder.call("aten.log.default", {odds});
}

Argument from_0_to_6(GraphBuilder &builder, const Argument &x) {
  return clamp_between(builder, builder.call(kAdd, {x, 3.0}), 0.0, 6.0);
}
Argument hard_sigmoid(GraphBuilder &builder, const Call &, const Argument &x) {
  return builder.call(kDiv, {from_0_to_6(builder, x), 6.0});
}
/// The product comes first: it overflows where PyTorch's does.
Argument hard_swish(GraphBuilder &builder, const Call &, const Argument &x) {
  return builder.call(kDiv, {builder.call(kMul, {x, from_0_to_6(builder, x)}), 6.0});
}

Argument glu(GraphBuilder &builder, const Call &call) {
  const auto [value, gate] = halves_of(builder, call, call["self"]);
  return builder.call(kMul, {value, builder.call("aten.sigmoid.default", {gate})});
}

Argument clamped(GraphBuilder &builder, const Call &call) {
  const DType dtype = call.tensor("self").dtype;
  return clamp_between(builder, call["self"], number_of_dtype(call, "min_val", dtype),
                       number_of_dtype(call, "max_val", dtype));
}

} // namespace

void add_activations(Table &table) {
  table.add_with_in_place("gelu(Tensor self, *, str approximate='none') -> Tensor")
      .decompose(widened(gelu));
  table.add_with_in_place("silu(Tensor self) -> Tensor").decompose(widened(silu));
  table.add_with_in_place("mish(Tensor self) -> Tensor").decompose(widened(mish));
  table.add_with_in_place("leaky_relu(Tensor self, Scalar negative_slope=0.01) -> Tensor")
      .decompose(widened(leaky_relu));
  table
      .add_with_in_place(
          "elu(Tensor self, Scalar alpha=1, Scalar scale=1, Scalar input_scale=1) -> Tensor")
      .decompose(widened(elu));
  table.add_with_in_place("celu(Tensor self, Scalar alpha=1.0) -> Tensor").decompose(widened(celu));
  table.add_with_in_place("selu(Tensor self) -> Tensor").decompose(widened(selu));
  table.add("softplus(Tensor self, Scalar beta=1, Scalar threshold=20) -> Tensor")
      .decompose(widened(softplus));
  table.add("log_sigmoid(Tensor self) -> Tensor").decompose(widened(log_sigmoid));
  table.add_with_in_place("logit(Tensor self, float? eps=None) -> Tensor")
      .decompose(widened(logit));
  table.add_with_in_place("hardsigmoid(Tensor self) -> Tensor").decompose(widened(hard_sigmoid));
  table.add_with_in_place("hardswish(Tensor self) -> Tensor").decompose(widened(hard_swish));
  table.add_with_in_place("hardtanh(Tensor self, Scalar min_val=-1, Scalar max_val=1) -> Tensor")
      .decompose(clamped);
  table.add_with_in_place("relu6(Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return clamp_between(builder, call["self"], 0, 6);
      });
  table.add("glu(Tensor self, int dim=-1) -> Tensor").decompose(glu);
}

} // namespace tsc::ops
