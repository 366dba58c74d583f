// Dropout and its kin. What is kept is multiplied by 1 / (1 - p) as a float number, as PyTorch's
// GPU kernels do it (its CPU rounds that factor to the tensor's dtype first).
#include "ops/families/draws.h"
#include "ops/families/factories.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {
namespace {

bool trains(const Call &call) { return call.has("train") && call.boolean("train"); }

/// Sizes of a mask: the input's, or for whole features [N, C, 1, 1, ..].
std::vector<Expr> mask_sizes(const Call &call, bool features) {
  std::vector<Expr> sizes = call.tensor("input").layout.sizes;
  if (!features)
    return sizes;
  if (sizes.size() < 2)
    call.fail("TSC-O035", call.node().target + " needs 2 or more dimensions",
              "pass [batch, features, ..]");
  std::fill(sizes.begin() + 2, sizes.end(), Expr(1));
  return sizes;
}

/// True where an element stays: with probability 1 - p. In the order of the input in memory, so
/// that neighbours there share a block of random numbers.
Argument kept(GraphBuilder &builder, const Call &call, bool features) {
  const TensorMeta input = call.tensor("input");
  const auto draw = [&](const std::vector<Expr> &sizes) {
    return draw_bernoulli(builder, {sizes, DType::boolean, input.device}, 1 - call.number("p"));
  };
  return features ? draw(mask_sizes(call, features))
                  : made_in_order(builder, input.layout.sizes,
                                  preserved_strides(input.layout, call.ranges()), draw);
}

/// input * mask * scale: what is dropped is the input times 0, so NaN stays NaN.
Argument masked(GraphBuilder &builder, const Argument &input, const Argument &mask, double scale) {
  return builder.call(kMul, {builder.call(kMul, {input, mask}), scale});
}

Argument plain_dropout(GraphBuilder &builder, const Call &call, bool features) {
  const double p = call.number("p");
  check_probability(call, p);
  if (!trains(call) || p == 0)
    return call["input"];
  if (p == 1)
    return builder.call(kMul, {call["input"], 0});
  return masked(builder, call["input"], kept(builder, call, features), 1 / (1 - p));
}

/// Dropped elements take the value that SELU saturates at; mean and variance are kept:
/// a * (mask ? x : saturation) + b.
Argument alpha_dropout(GraphBuilder &builder, const Call &call, bool features) {
  const double p = call.number("p"), saturation = 1.7580993408473766;
  check_probability(call, p);
  if (!trains(call) || p == 0)
    return call["input"];
  if (tensor::is_complex(call.tensor("input").dtype))
    call.refuse("TSC-O150", call.node().target + " of complex numbers in training is not supported",
                "drop parts (torch.view_as_real)");
  if (p == 1)
    return builder.call(kMul, {call["input"], 0});
  const double a = 1 / std::sqrt((saturation * saturation * p + 1) * (1 - p));
  Argument mask = kept(builder, call, features);
  const DType dtype = call.tensor("input").dtype;
  Argument input = widen(builder, call["input"]);
  Argument stays = masked(builder, input, mask, a);
  Argument shift = builder.call(kWhere, {mask, saturation * a * p, saturation * a * (p - 1)});
  return convert(builder, builder.call(kAdd, {stays, shift}), dtype);
}

/// (output, mask): outside of training everything is kept.
Argument native_dropout(GraphBuilder &builder, const Call &call) {
  const double p = call.number("p");
  check_probability(call, p);
  const bool active = (!call.has("train") || call.boolean("train")) && p != 0;
  auto constant_mask = [&](int value) {
    return builder.call("aten.full_like.default", {call["input"], value},
                        {{"dtype", DType::boolean}});
  };
  if (!active)
    return Arguments{builder.call("aten.clone.default", {call["input"]}), constant_mask(1)};
  if (p == 1)
    return Arguments{builder.call("aten.zeros_like.default", {call["input"]}), constant_mask(0)};
  Argument mask = kept(builder, call, false);
  return Arguments{masked(builder, call["input"], mask, 1 / (1 - p)), mask};
}

} // namespace

void add_dropout(Table &table) {
  struct Form {
    std::string_view name;
    Argument (*compute)(GraphBuilder &, const Call &, bool);
    bool features;
  };
  const Form forms[] = {{"dropout", plain_dropout, false},
                        {"feature_dropout", plain_dropout, true},
                        {"alpha_dropout", alpha_dropout, false},
                        {"feature_alpha_dropout", alpha_dropout, true}};
  for (const Form &form : forms) {
    std::string name(form.name);
    auto compute = form.compute;
    const bool features = form.features;
    table.add(keep_text(name + "(Tensor(a) input, float p, bool train) -> Tensor(a)"))
        .effect(Effect::view) // outside of training it is its input
        .decompose([compute, features](GraphBuilder &builder, const Call &call) {
          return compute(builder, call, features);
        });
    table.add_mutating(keep_text(name + "_(Tensor(a!) self, float p, bool train) -> Tensor(a!)"),
                       keep_text("aten." + name + ".default"));
  }
  table.add("native_dropout(Tensor input, float p, bool? train) -> (Tensor, Tensor)")
      .decompose(native_dropout);
  table.add("native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return masked(builder, call["grad_output"], call["mask"], call.number("scale"));
      });
}

} // namespace tsc::ops
