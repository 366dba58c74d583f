#include "ops/families/draws.h"

#include "ops/table/complex_calls.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/text.h"

#include <numbers>

namespace tsc::ops {
namespace {

constexpr std::string_view kUniform = "tsc.random_uniform.default",
                           kNormal = "tsc.random_normal.default",
                           kExponential = "tsc.random_exponential.default",
                           kBits = "tsc.random_bits.default";

/// State and stream are filled in by seed_random.
Argument draw(GraphBuilder &builder, std::string_view target, const DrawnTensor &result,
              const Arguments &parameters) {
  Arguments args = {graph::None{}, -1, sizes_argument(result.sizes)};
  args.insert(args.end(), parameters.begin(), parameters.end());
  return builder.emit(target, std::move(args),
                      {{"dtype", result.dtype}, {"device", result.device}});
}

} // namespace

namespace {

/// Of complex numbers both parts, each drawn for itself.
Argument draw_parts(GraphBuilder &builder, std::string_view target, const DrawnTensor &result,
                    const Arguments &parameters) {
  DrawnTensor part = result;
  part.dtype = part_dtype(result.dtype);
  const Argument re = draw(builder, target, part, parameters);
  if (part.dtype == result.dtype)
    return re;
  return builder.call("aten.complex.default", {re, draw(builder, target, part, parameters)});
}

} // namespace

Argument draw_uniform(GraphBuilder &builder, const DrawnTensor &result, double low, double high) {
  return draw_parts(builder, kUniform, result, {low, high});
}
Argument draw_normal(GraphBuilder &builder, const DrawnTensor &result, double mean,
                     double deviation) {
  const bool is_complex = tensor::is_complex(result.dtype);
  return draw_parts(builder, kNormal, result,
                    {mean, is_complex ? deviation / std::numbers::sqrt2 : deviation});
}
Argument draw_exponential(GraphBuilder &builder, const DrawnTensor &result, double rate) {
  return draw(builder, kExponential, result, {rate});
}
Argument draw_bits(GraphBuilder &builder, const DrawnTensor &result) {
  return draw(builder, kBits, result, {});
}
Argument draw_bernoulli(GraphBuilder &builder, const DrawnTensor &result, double probability) {
  Argument numbers = draw_uniform(builder, {result.sizes, DType::f32, result.device});
  return builder.call("aten.lt.Tensor", {numbers, probability});
}
Argument draw_bernoulli_of(GraphBuilder &builder, const Argument &state, const DrawnTensor &result,
                           double probability) {
  const Argument numbers =
      builder.emit(kUniform, {state, 0, sizes_argument(result.sizes), 0.0, 1.0},
                   {{"dtype", DType::f32}, {"device", result.device}});
  return builder.call("aten.lt.Tensor", {numbers, probability});
}

void check_probability(const Call &call, double probability) {
  if (!(probability >= 0 && probability <= 1)) // nor NaN
    call.fail("TSC-O032",
              call.node().target + ": the probability is " + support::python_repr(probability),
              "pass a probability from 0 to 1");
}

bool is_seeded_draw(const Node &node) {
  const std::string &target = node.target;
  return node.kind == graph::NodeKind::call_function &&
         (target == kUniform || target == kNormal || target == kExponential || target == kBits) &&
         !node.args.at(0).node();
}

void add_draws(Table &table) {
  struct Form {
    std::string_view name, parameters;
  };
  const Form forms[] = {{"random_uniform", "float low, float high, "},
                        {"random_normal", "float mean, float std, "},
                        {"random_exponential", "float rate, "},
                        {"random_bits", ""}};
  for (const Form &form : forms)
    table
        .add(keep_text(
            "tsc::" + std::string(form.name) + "(Tensor? state, int stream, SymInt[] size, " +
            std::string(form.parameters) + "*, ScalarType dtype, Device device) -> Tensor"))
        .shape([](const Call &call) {
          return contiguous_value(*call.dtype("dtype"), call.sizes("size"),
                                  device_argument(call, {}));
        })
        .effect(Effect::random)
        .lowers(form.name);
}

} // namespace tsc::ops
