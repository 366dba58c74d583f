// Windows that signals are cut out with: functions of the place, computed in float64 and rounded
// once. A periodic window is one of one element more, without its last.
#include "ops/families/factories.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <cmath>
#include <numbers>

namespace tsc::ops {
namespace {

/// `x`: the place in the window, from 0 at its first element to 1 at its last.
using Shape = Term (*)(const Call &, const Term &x);

double number_or(const Call &call, std::string_view parameter, double otherwise) {
  for (const Parameter &each : call.schema().parameters)
    if (each.name == parameter)
      return call.number(parameter);
  return otherwise;
}

Term cosine(const Term &x, double turns) {
  return (x * (2 * std::numbers::pi * turns)).then("aten.cos.default");
}
Term hann(const Call &, const Term &x) { return cosine(x, 1) * -0.5 + 0.5; }
Term hamming(const Call &call, const Term &x) {
  return cosine(x, 1) * -number_or(call, "beta", 0.46) + number_or(call, "alpha", 0.54);
}
Term blackman(const Call &, const Term &x) {
  return cosine(x, 2) * 0.08 - cosine(x, 1) * 0.5 + 0.42;
}
Term bartlett(const Call &, const Term &x) { return 1.0 - abs(x * 2.0 - 1.0); }
Term kaiser(const Call &call, const Term &x) {
  const double beta = number_or(call, "beta", 12.0);
  const Term arc = (1.0 - square(x * 2.0 - 1.0)).then("aten.clamp_min.default", {0.0});
  const Term most = filled(x.builder(), {}, beta, DType::f64, x.meta().device);
  return (sqrt(arc) * beta).then("aten.i0.default") / most.then("aten.i0.default");
}

Decomposition window(Shape shape) {
  return [shape](GraphBuilder &builder, const Call &call) -> Argument {
    const int64_t length = call.integer("window_length");
    const DType dtype = call.dtype("dtype").value_or(DType::f32);
    if (length < 0)
      call.fail("TSC-O034", call.node().target + " of " + std::to_string(length) + " elements",
                "pass a length of 0 or more");
    if (!tensor::is_floating(dtype))
      call.fail("TSC-O034",
                call.node().target + " of " + std::string(tensor::torch_name(dtype)) + " elements",
                "ask for a floating dtype");
    const tensor::Device device = device_argument(call, {});
    if (length <= 1)
      return filled(builder, {Expr(length)}, 1.0, dtype, device);
    bool is_periodic = true;
    for (const Parameter &each : call.schema().parameters)
      if (each.name == "periodic")
        is_periodic = call.boolean("periodic");
    const int64_t steps = is_periodic ? length : length - 1;
    const Term place(builder, counting(builder, Expr(length), device).as(DType::f64));
    return shape(call, place / static_cast<double>(steps)).as(dtype);
  };
}

} // namespace

void add_window_functions(Table &table) {
  const auto add = [&](std::string_view name, std::string_view overload,
                       std::string_view parameters, Shape shape) {
    table
        .add(factory(std::string(name) + std::string(overload) + "(int window_length" +
                     std::string(parameters)))
        .decompose(window(shape));
  };
  struct Window {
    std::string_view name;
    Shape shape;
  };
  for (const Window &each : {Window{"bartlett_window", bartlett},
                             Window{"blackman_window", blackman}, Window{"hamming_window", hamming},
                             Window{"hann_window", hann}, Window{"kaiser_window", kaiser}}) {
    add(each.name, "", "", each.shape);
    add(each.name, ".periodic", ", bool periodic", each.shape);
  }
  add("hamming_window", ".periodic_alpha", ", bool periodic, float alpha", hamming);
  add("hamming_window", ".periodic_alpha_beta", ", bool periodic, float alpha, float beta",
      hamming);
  add("kaiser_window", ".beta", ", bool periodic, float beta", kaiser);
}

} // namespace tsc::ops
