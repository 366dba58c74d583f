// Training for integers: the range of a tensor is observed, averaged over the runs, and becomes the
// scale and the zero point by which the tensor is quantized.
#include "ops/families/assertions.h"
#include "ops/families/fake_quantization.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>
#include <cstdlib>

namespace tsc::ops {
namespace {

constexpr float kSmallestScale = 6.1e-5f; // PyTorch's SMALL_SCALE_THRESHOLD

/// The lowest and the highest value of a tensor, or of each channel, and what follows from them.
struct Range {
  Term low, high;
};
struct Chosen {
  Term scale, zero_point;
};

/// Sizes of what is kept for the tensor as a whole, or for each channel.
std::vector<Expr> kept_sizes(const Call &call) {
  if (!call.boolean("per_row_fake_quant"))
    return {};
  const std::vector<Expr> channels = channel_sizes(call, "ch_axis");
  return {channels.empty() ? Expr(1) : channels[static_cast<size_t>(call.integer("ch_axis"))]};
}

Term kept(GraphBuilder &builder, const Call &call, std::string_view name,
          const std::vector<Expr> &sizes) {
  const std::vector<Expr> given_sizes = call.tensor(name).layout.sizes;
  if (!taken_equal(call, symbolic::numel(given_sizes), symbolic::numel(sizes)))
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(name) + "' of sizes " +
                  print_sizes(given_sizes) + " for " +
                  print_sizes(call.tensor("self").layout.sizes),
              "give one number for each that is quantized by itself; observers of channels get "
              "their sizes when the model runs, so run it once before it is exported");
  return reshaped(given(builder, call, name), sizes);
}

Term is_on(GraphBuilder &builder, const Call &call, std::string_view name) {
  return reshaped(given(builder, call, name), {}).then("aten.ne.Scalar", {0});
}

/// The averaged range, moved towards that of the tensor: infinite ones have seen nothing so far.
Range observed(GraphBuilder &builder, const Call &call, const std::vector<Expr> &sizes) {
  const TensorMeta self = call.tensor("self");
  Arguments dims;
  for (size_t dim = 0; dim < self.layout.rank(); ++dim)
    if (sizes.empty() || static_cast<int64_t>(dim) != call.integer("ch_axis"))
      dims.push_back(static_cast<int64_t>(dim));
  const Term values(builder, convert(builder, call["self"], DType::f32));
  const Term on = is_on(builder, call, "observer_on");
  const auto moved = [&](std::string_view name, std::string_view extreme) {
    const Term old(builder, convert(builder, kept(builder, call, name, sizes), DType::f32));
    // Without dimensions to go over, each value is a channel of its own.
    const Term now = dims.empty() ? reshaped(values, sizes)
                                  : reshaped(values.then(extreme, {dims, false}), sizes);
    const Term next =
        where(old.then("aten.isinf.default"), now, old + (now - old) * call["averaging_const"]);
    return where(on, next, old);
  };
  return {moved("running_min", "aten.amin.default"), moved("running_max", "aten.amax.default")};
}

/// What PyTorch's ChooseQuantizationParams takes for a range: in float64, of bounds in float32.
Chosen chosen(GraphBuilder &builder, const Call &call, const Range &range) {
  const int64_t lowest = call.integer("quant_min"), highest = call.integer("quant_max");
  const int64_t steps = highest - lowest;
  const auto narrow = [&](const Term &x) { return Term(builder, x.as(DType::f32)); };
  const auto widened = [&](const Term &x) { return Term(builder, x.as(DType::f64)); };
  Term low = range.low, high = range.high;
  const Term spans_zero = both(low<0, high> 0);
  const bool symmetric = call.boolean("symmetric_quant");
  if (symmetric) {
    const int64_t below = -(steps / 2 + 1), above = steps / 2;
    const Term widest = widened(abs(low / below).then("aten.maximum.default", {abs(high / above)}));
    low = where(spans_zero, narrow(widest * below), low);
    high = where(spans_zero, narrow(widest * above), high);
  }
  low = where(low < 0, low, 0.0);
  high = where(high > 0, high, 0.0);
  Term scale = (widened(high) - low) / steps;
  const Term vanishes =
      either(equal(narrow(scale), 0.0), (1.0 / narrow(scale)).then("aten.isinf.default"));
  scale = where(vanishes, 0.1, scale);
  const double smallest = kSmallestScale;
  const Term is_small = scale < smallest;
  const auto end = static_cast<double>(kSmallestScale * static_cast<float>(steps));
  const Term factor = smallest / narrow(scale);
  const Term small_low = where(equal(low, 0.0), low, where(equal(high, 0.0), -end, low * factor));
  const Term small_high = where(equal(low, 0.0), end, where(equal(high, 0.0), high, high * factor));
  scale = where(is_small, smallest, scale);
  low = widened(where(is_small, small_low, low)) / scale;
  high = widened(where(is_small, small_high, high)) / scale;
  // The end that is rounded less says where zero is.
  const Term from_low = abs(low) + static_cast<double>(std::abs(lowest));
  const Term from_high = abs(high) + static_cast<double>(std::abs(highest));
  Term zero = where(from_low < from_high, static_cast<double>(lowest) - low,
                    static_cast<double>(highest) - high);
  if (symmetric)
    zero = where(spans_zero, static_cast<double>(lowest + highest) / 2, zero);
  zero = zero.then("aten.round.default").then("aten.clamp.default", {lowest, highest});
  return {narrow(scale), Term(builder, zero.as(DType::i32))};
}

/// (output, mask, running_min, running_max, scale, zero_point)
Arguments observe_and_quantize(GraphBuilder &builder, const Call &call) {
  if (call.integer("quant_min") >= call.integer("quant_max"))
    call.fail("TSC-O127",
              call.node().target + " from " + std::to_string(call.integer("quant_min")) + " to " +
                  std::to_string(call.integer("quant_max")),
              "give the lower bound first");
  const bool by_channel = call.boolean("per_row_fake_quant");
  const std::vector<Expr> sizes = kept_sizes(call);
  const Range range = observed(builder, call, sizes);
  const Term on = is_on(builder, call, "fake_quant_on");
  const Term is_ordered = (range.low <= range.high).then("aten.all.default");
  assert_condition(builder, either(is_ordered, on.then("aten.logical_not.default")),
                   "an observed minimum is at most the maximum");
  const Chosen now = chosen(builder, call, range);
  const Term scale = where(on, now.scale, kept(builder, call, "scale", sizes));
  const Term zero_point = where(on, now.zero_point, kept(builder, call, "zero_point", sizes));
  const std::vector<Expr> spread =
      by_channel ? channel_sizes(call, "ch_axis") : std::vector<Expr>{};
  const Term wide_scale = reshaped(Term(builder, scale.as(DType::f32)), spread);
  const Arguments results = quantized(
      builder, call,
      {wide_scale, 1.0 / wide_scale, reshaped(Term(builder, zero_point.as(DType::i64)), spread)});
  const auto as_given = [&](const Term &value, std::string_view name) {
    const TensorMeta meta = call.tensor(name);
    return reshaped(Term(builder, value.as(meta.dtype)), meta.layout.sizes);
  };
  return {where(on, results[0], call["self"]),
          where(on, results[1], true),
          as_given(range.low, "running_min"),
          as_given(range.high, "running_max"),
          as_given(scale, "scale"),
          as_given(zero_point, "zero_point")};
}

/// The same without the mask; of an empty tensor nothing is observed.
Arguments observe_and_quantize_all(GraphBuilder &builder, const Call &call) {
  if (symbolic::numel(call.tensor("self").layout.sizes).is_integer(0))
    return {builder.call("aten.clone.default", {call["self"]}), call["running_min"],
            call["running_max"], call["scale"], call["zero_point"]};
  Arguments results = observe_and_quantize(builder, call);
  results.erase(results.begin() + 1);
  return results;
}

} // namespace

void add_observers(Table &table) {
  const std::string given =
      "(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor running_min, Tensor "
      "running_max, Tensor scale, Tensor zero_point, float averaging_const, int quant_min, int "
      "quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> ";
  const std::string written =
      "(Tensor self, Tensor observer_on, Tensor fake_quant_on, Tensor(a!) running_min, Tensor(b!) "
      "running_max, Tensor(c!) scale, Tensor(d!) zero_point, float averaging_const, int quant_min, "
      "int quant_max, int ch_axis, bool per_row_fake_quant=False, bool symmetric_quant=False) -> ";
  const std::string values =
      "Tensor running_min_out, Tensor running_max_out, Tensor scale_out, Tensor zero_point_out)";
  table
      .add(keep_text("_fused_moving_avg_obs_fq_helper_functional" + given +
                     "(Tensor output, Tensor mask, " + values))
      .decompose(observe_and_quantize);
  table.add_mutating(
      keep_text("_fused_moving_avg_obs_fq_helper" + written + "(Tensor output, Tensor mask)"),
      "aten._fused_moving_avg_obs_fq_helper_functional.default");
  table.add(keep_text("tsc::observe_and_quantize" + given + "(Tensor output, " + values))
      .decompose(observe_and_quantize_all);
  table.add_mutating(keep_text("fused_moving_avg_obs_fake_quant" + written + "Tensor"),
                     "tsc.observe_and_quantize.default");
}

} // namespace tsc::ops
