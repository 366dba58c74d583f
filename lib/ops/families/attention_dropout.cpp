#include "ops/families/attention_dropout.h"

#include "ops/families/attention.h"

#include "ops/families/draws.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"

namespace tsc::ops {
namespace {

/// In the upper half of a state's second number, which no offset of PyTorch's generator reaches and
/// which a draw does not look at.
constexpr int64_t kOwn = 0x74736364, kHalf = 32;

Argument element(GraphBuilder &builder, const Argument &state, int64_t position) {
  return builder.call("aten.select.int", {state, 0, position});
}

bool has(const Call &call, std::string_view name) {
  return has_parameter(call, name) && call.has(name);
}

} // namespace

Argument new_dropout_state(GraphBuilder &builder, tensor::Device device) {
  const Argument bits = draw_bits(builder, {{Expr(2)}, DType::i64, device});
  const Argument low = builder.call("aten.bitwise_and.Scalar", {bits, (int64_t{1} << kHalf) - 1});
  const Argument marked = builder.call("aten.bitwise_or.Scalar", {low, kOwn << kHalf});
  const Argument position = builder.call("aten.arange.start_step", {0, 2, 1},
                                         {{"dtype", DType::i64}, {"device", device}});
  return builder.call(kWhere, {builder.call("aten.eq.Scalar", {position, 0}), bits, marked});
}

Argument saved_dropout_state(GraphBuilder &builder, const Call &call, size_t position,
                             const Argument &state) {
  const std::string_view name = call.schema().returns[position].name;
  const bool drawn = state.node();
  if (drawn && name == "rng_state")
    return builder.call("aten.view.dtype", {state, DType::u64});
  if (drawn && name == "philox_seed")
    return element(builder, state, 0);
  if (drawn && name == "philox_offset")
    return element(builder, state, 1);
  const bool is_pair = name == "rng_state", is_unsigned = is_pair || name == "unused";
  return builder.call(
      "aten.full.default", {is_pair ? Arguments{2} : Arguments{}, 0},
      {{"dtype", is_unsigned ? DType::u64 : DType::i64}, {"device", call.tensor("query").device}});
}

Argument given_dropout_state(GraphBuilder &builder, const Call &call) {
  const auto holds_bits = [&](std::string_view name) {
    const DType dtype = call.tensor(name).dtype;
    return dtype == DType::i64 || dtype == DType::u64;
  };
  if (has(call, "philox_seed") && holds_bits("philox_seed")) {
    const auto signed_number = [&](std::string_view name) {
      const Argument number = call[name];
      return builder.meta(number).dtype == DType::i64
                 ? number
                 : builder.call("aten.view.dtype", {number, DType::i64});
    };
    const std::vector<Expr> sizes = call.tensor("philox_seed").layout.sizes;
    if (sizes.size() == 1 && sizes[0].is_integer(2))
      return signed_number("philox_seed");
    if (sizes.empty() && has(call, "philox_offset") && holds_bits("philox_offset") &&
        call.tensor("philox_offset").layout.sizes.empty())
      return builder.call(
          "aten.stack.default",
          {Arguments{signed_number("philox_seed"), signed_number("philox_offset")}, 0});
  }
  call.refuse("TSC-O032",
              call.node().target +
                  " with dropout needs the random state that its forward form saves",
              "pass the forward form's rng_state, or its philox_seed and philox_offset");
}

Argument is_own_dropout_state(GraphBuilder &builder, const Argument &state) {
  const Argument mark =
      builder.call("aten.bitwise_right_shift.Tensor_Scalar", {element(builder, state, 1), kHalf});
  return builder.call("aten.eq.Scalar", {mark, kOwn});
}

Argument dropped_weights(GraphBuilder &builder, const Argument &weights, const Argument &state,
                         double p) {
  if (p == 1)
    return builder.call(kMul, {weights, 0});
  const TensorMeta meta = builder.meta(weights);
  const Argument mask =
      draw_bernoulli_of(builder, state, {meta.layout.sizes, DType::boolean, meta.device}, 1 - p);
  return builder.call(kMul, {builder.call(kMul, {weights, mask}), 1 / (1 - p)});
}

} // namespace tsc::ops
