// Backward forms of activations: what comes from above times the derivative, in f32 or wider. Which
// side of a bend counts is what PyTorch's CPU kernels take.
#include "ops/families/halves.h"
#include "ops/families/piecewise_activations.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace tsc::ops {
namespace {

/// A derivative's product with the gradient: both widened, the result narrowed to their dtype.
using Body = Term (*)(const Call &, const Term &gradient, const Term &x);
Decomposition gradient(Body body) {
  return [body](GraphBuilder &builder, const Call &call) -> Argument {
    const std::string_view above = call.schema().parameters[0].name,
                           x = call.schema().parameters[1].name;
    const DType dtype = promote_operands(elementwise_operands(call, {above, x}));
    return body(call, wide(builder, call, above), wide(builder, call, x)).as(dtype);
  };
}

Term of_sigmoid(const Call &, const Term &g, const Term &y) { return g * (1.0 - y) * y; }
Term of_tanh(const Call &, const Term &g, const Term &y) { return g * (1.0 - square(y)); }

Term of_gelu(const Call &call, const Term &g, const Term &x) {
  const std::string approximate = call.string("approximate").value_or("none");
  if (approximate != "none" && approximate != "tanh")
    call.fail("TSC-O030", "aten.gelu_backward: unknown approximation '" + approximate + "'",
              "use 'none' or 'tanh'");
  if (approximate == "none") {
    const Term share = ((x * (1 / std::numbers::sqrt2)).then("aten.erf.default") + 1.0) * 0.5;
    const Term density =
        exp(square(x) * -0.5) * (0.5 * std::numbers::inv_sqrtpi * std::numbers::sqrt2);
    return g * (share + x * density);
  }
  constexpr double kCube = 0.044715;
  const double beta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const Term curve = tanh((x + x * square(x) * kCube) * beta);
  const Term slope = (square(x) * (3 * kCube) + 1.0) * beta;
  return g * ((curve + 1.0) * 0.5 + x * 0.5 * (1.0 - square(curve)) * slope);
}

Term of_silu(const Call &, const Term &g, const Term &x) {
  const Term gate = sigmoid(x);
  return g * gate * (x * (1.0 - gate) + 1.0);
}

Term of_mish(const Call &, const Term &g, const Term &x) {
  const Term curve = tanh(x.then("aten.softplus.default"));
  return g * (curve + x * sigmoid(x) * (1.0 - square(curve)));
}

/// `x` is the input, or the result where the call says so.
Term of_elu(const Call &call, const Term &g, const Term &x) {
  const double alpha = call.number("alpha"), scale = call.number("scale"),
               input_scale = call.number("input_scale");
  const bool is_result = call.boolean("is_result");
  if (is_result && alpha < 0)
    call.fail("TSC-O030",
              call.node().target + " from the result with the negative alpha " +
                  std::to_string(alpha),
              "pass the input and is_result=False");
  const Term below = is_result ? g * input_scale * (x + alpha * scale)
                               : g * input_scale * (alpha * scale) * exp(x * input_scale);
  return where(x <= 0, below, g * scale);
}

Term of_leaky_relu(const Call &call, const Term &g, const Term &x) {
  return where(x > 0, g, g * call["negative_slope"]);
}

Term of_hardtanh(const Call &call, const Term &g, const Term &x) {
  return where(either(x <= call["min_val"], x >= call["max_val"]), 0.0, g);
}

Term of_hardsigmoid(const Call &, const Term &g, const Term &x) {
  return where(both(x > -3.0, x < 3.0), g / 6.0, 0.0);
}

Term of_hardswish(const Call &, const Term &g, const Term &x) {
  return where(x <= -3.0, 0.0, where(x < 3.0, g * (x / 3.0 + 0.5), g));
}

Term of_shrink(const Call &call, const Term &g, const Term &x) {
  const double bound = call.number("lambd");
  return where(both(x >= -bound, x <= bound), 0.0, g);
}

Term of_softplus(const Call &call, const Term &g, const Term &x) {
  const Term scaled = x * call["beta"], z = exp(scaled);
  return where(scaled > call["threshold"], g, g * z / (z + 1.0));
}

Term of_log_sigmoid(const Call &, const Term &g, const Term &x) {
  const Term z = exp(-abs(x)), share = z / (z + 1.0);
  const Term below = x < 0;
  return g * where(below, 1.0 - share, share);
}

/// 0 outside of [eps, 1 - eps], NaN outside of [0, 1] where there is no eps.
Term of_logit(const Call &call, const Term &g, const Term &x) {
  const bool bounded = call.has("eps");
  const double low = bounded ? call.number("eps") : 0.0;
  const Term outside = either(x<low, x> 1 - low);
  return where(outside, bounded ? 0.0 : std::numeric_limits<double>::quiet_NaN(),
               g / (x * (1.0 - x)));
}

Argument of_threshold(GraphBuilder &builder, const Call &call) {
  return above_threshold(builder, call, call["grad_output"], 0);
}

Argument of_glu(GraphBuilder &builder, const Call &call) {
  const DType dtype = call.tensor("self").dtype;
  const Term x = wide(builder, call, "self"), g = wide(builder, call, "grad_output");
  const auto halves = halves_of(builder, call, x);
  const Term value(builder, halves.first), gate = sigmoid(Term(builder, halves.second));
  const Term first = gate * g, second = (1.0 - gate) * gate * g * value;
  const Arguments both_halves = {first.as(dtype), second.as(dtype)};
  return builder.call("aten.cat.default", {both_halves, call["dim"]});
}

/// (of the input, of the slope at every element): who calls it adds the latter up.
Argument of_prelu(GraphBuilder &builder, const Call &call) {
  const Term g = wide(builder, call, "grad_output"), x = wide(builder, call, "self"),
             slope = wide(builder, call, "weight");
  const Term above = x > 0;
  return Arguments{where(above, g, slope * g).as(call.tensor("self").dtype),
                   where(above, 0.0, x * g).as(call.tensor("weight").dtype)};
}

/// In training each element had a slope of its own, which `noise` holds.
Argument of_rrelu(GraphBuilder &builder, const Call &call) {
  const double lower = call.number("lower"), upper = call.number("upper");
  if (call.boolean("training") && upper - lower > 1e-6)
    return builder.call(kMul, {call["grad_output"], call["noise"]});
  return builder.call(
      "aten.leaky_relu_backward.default",
      {call["grad_output"], call["self"], (lower + upper) / 2, call["self_is_result"]});
}

} // namespace

void add_activation_gradients(Table &table) {
  const std::string_view input = "(Tensor grad_output, Tensor self";
  const auto add = [&](std::string_view name, std::string_view rest, Body body) {
    table
        .add(keep_text(std::string(name) + "_backward" + std::string(input) + std::string(rest) +
                       ") -> Tensor"))
        .decompose(gradient(body));
  };
  table.add("sigmoid_backward(Tensor grad_output, Tensor output) -> Tensor")
      .decompose(gradient(of_sigmoid));
  table.add("tanh_backward(Tensor grad_output, Tensor output) -> Tensor")
      .decompose(gradient(of_tanh));
  add("gelu", ", *, str approximate='none'", of_gelu);
  add("silu", "", of_silu);
  add("mish", "", of_mish);
  add("leaky_relu", ", Scalar negative_slope, bool self_is_result", of_leaky_relu);
  add("hardtanh", ", Scalar min_val, Scalar max_val", of_hardtanh);
  add("hardsigmoid", "", of_hardsigmoid);
  add("hardswish", "", of_hardswish);
  add("softshrink", ", Scalar lambd", of_shrink);
  add("softplus", ", Scalar beta, Scalar threshold", of_softplus);
  add("log_sigmoid", ", Tensor buffer", of_log_sigmoid);
  add("logit", ", float? eps=None", of_logit);
  table.add("hardshrink_backward(Tensor grad_out, Tensor self, Scalar lambd) -> Tensor")
      .decompose(gradient(of_shrink));
  table
      .add("elu_backward(Tensor grad_output, Scalar alpha, Scalar scale, Scalar input_scale, bool "
           "is_result, Tensor self_or_result) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        const DType dtype =
            promote_operands(elementwise_operands(call, {"grad_output", "self_or_result"}));
        return of_elu(call, wide(builder, call, "grad_output"),
                      wide(builder, call, "self_or_result"))
            .as(dtype);
      });
  table.add("threshold_backward(Tensor grad_output, Tensor self, Scalar threshold) -> Tensor")
      .decompose(of_threshold);
  table.add("glu_backward(Tensor grad_output, Tensor self, int dim) -> Tensor").decompose(of_glu);
  table
      .add("_prelu_kernel_backward(Tensor grad_output, Tensor self, Tensor weight) -> (Tensor, "
           "Tensor)")
      .decompose(of_prelu);
  table
      .add("rrelu_with_noise_backward(Tensor grad_output, Tensor self, Tensor noise, Scalar lower, "
           "Scalar upper, bool training, bool self_is_result) -> Tensor")
      .decompose(of_rrelu);
  table.add("infinitely_differentiable_gelu_backward(Tensor grad, Tensor self) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.call("aten.gelu_backward.default", {call["grad"], call["self"]});
      });
}

} // namespace tsc::ops
