// Interpolation by windows of known sizes. Of uint8 as PyTorch has it on a CPU: weights of 16 bits,
// sums of integers, rounded to uint8 after each dimension, the last one first. Of floats where it
// is antialiased: what lies outside of a window, a NaN say, is not looked at.
#include "ops/families/resampling.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {
namespace {

constexpr double kPlain = -0.75, kAntialiased = -0.5; // of the cubic kernel

/// Along one dimension of known sizes.
struct Filter {
  int64_t from = 0, to = 0;
  double scale = 0;   // elements of the input that one of the output covers
  double support = 0; // elements on either side of a centre; antialiased
  int64_t taps = 0;
  bool cubic = false, antialias = false, align_corners = false;

  Filter(const Axis &axis, bool cubic, bool antialias, bool align_corners)
      : from(axis.from.value()), to(axis.to.value()), cubic(cubic), antialias(antialias),
        align_corners(align_corners) {
    const auto size = [](int64_t n) { return static_cast<double>(n); };
    if (align_corners)
      scale = to > 1 ? size(from - 1) / size(to - 1) : 0;
    else
      scale = axis.factor && *axis.factor > 0 ? 1 / *axis.factor : size(from) / size(to);
    const double half = cubic ? 2 : 1;
    support = scale >= 1 ? half * scale : half;
    taps = antialias ? 2 * static_cast<int64_t>(std::ceil(support)) + 1 : (cubic ? 4 : 2);
  }
  double narrowing() const { return scale >= 1 ? 1 / scale : 1; }
  bool clamps_start() const { return !cubic && !align_corners; }

  double weight(double t) const {
    t = std::fabs(t);
    if (!cubic)
      return t < 1 ? 1 - t : 0;
    const double a = antialias ? kAntialiased : kPlain;
    if (t < 1)
      return ((a + 2) * t - (a + 3)) * t * t + 1;
    return t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
  }

  /// The largest weight of output element `at`, of those that share an element also on the way.
  double largest_weight(int64_t at) const {
    double most = 0;
    if (antialias) {
      const double centre = scale * (static_cast<double>(at) + 0.5);
      const int64_t first = std::max<int64_t>(static_cast<int64_t>(centre - support + 0.5), 0);
      const int64_t end = std::min(static_cast<int64_t>(centre + support + 0.5), from);
      double total = 0;
      for (int64_t j = first; j < std::min(end, first + taps); ++j) {
        const double w = weight((static_cast<double>(j) - centre + 0.5) * narrowing());
        total += w;
        most = std::max(most, w);
      }
      return total == 0 ? 0 : most / total;
    }
    double source = align_corners ? scale * static_cast<double>(at)
                                  : scale * (static_cast<double>(at) + 0.5) - 0.5;
    source = clamps_start() ? std::max(source, 0.0) : source;
    const int64_t below = std::min(static_cast<int64_t>(std::floor(source)), from - 1);
    const double part = std::clamp(source - static_cast<double>(below), 0.0, 1.0);
    double sum = 0;
    for (int64_t j = 0, before = -1; j < taps; ++j) {
      const int64_t place = std::clamp<int64_t>(below - taps / 2 + 1 + j, 0, from - 1);
      sum = (place == before ? sum : 0) + weight(static_cast<double>(j + 1 - taps / 2) - part);
      most = std::max(most, sum);
      before = place;
    }
    return most;
  }
  /// Bits of the weights behind the point, so that the largest has 16 with its sign.
  int64_t precision() const {
    double most = 0;
    for (int64_t at = 0; at < to; ++at)
      most = std::max(most, largest_weight(at));
    int64_t bits = 0;
    while (bits < 22 &&
           0.5 + most * static_cast<double>(int64_t{1} << (bits + 1)) < double{1 << 15})
      ++bits;
    return bits;
  }
};

/// The same as tensors [to, taps], in f64 until they are rounded.
class Taps {
public:
  Taps(GraphBuilder &builder, const Filter &filter, tensor::Device device)
      : builder_(builder), filter_(filter), device_(device),
        at_(call("aten.unsqueeze.default", {convert(builder, iota(filter.to), DType::f64), 1})),
        tap_(iota(filter.taps)) {
    if (filter.antialias)
      antialiased();
    else
      plain();
  }
  /// Positions in the input, int64, and weights times 2^precision, int32.
  const Argument &places() const { return places_; }
  /// Which taps are of the window, none if all are, and weights as they are, f64.
  const Argument &counts() const { return counts_; }
  const Argument &whole_weights() const { return weights_; }
  Argument weights(int64_t precision) const {
    const Argument scaled = call(kMul, {weights_, static_cast<double>(int64_t{1} << precision)});
    const Argument is_below = call("aten.lt.Scalar", {scaled, 0.0});
    const Argument half = call(kWhere, {is_below, -0.5, 0.5});
    return convert(builder_, call(kAdd, {scaled, half}), DType::i32); // towards 0
  }

private:
  GraphBuilder &builder_;
  const Filter &filter_;
  const tensor::Device device_;
  const Argument at_, tap_;
  Argument places_, weights_, counts_;

  Argument call(std::string_view target, Arguments args) const {
    return builder_.call(target, std::move(args));
  }
  Argument iota(int64_t count) const {
    return builder_.call("prims.iota.default", {count},
                         {{"start", 0},
                          {"step", 1},
                          {"dtype", DType::i64},
                          {"device", device_},
                          {"requires_grad", false}});
  }
  Argument held(const Argument &x, const Argument &low, const Argument &high) const {
    return call("aten.minimum.default", {call("aten.maximum.default", {x, low}), high});
  }
  Argument weight(const Argument &offset) const {
    const Argument t = call("aten.abs.default", {offset});
    const Argument is_near = call("aten.lt.Scalar", {t, 1.0});
    if (!filter_.cubic)
      return call(kWhere, {is_near, call(kSub, {1.0, t}), 0.0});
    const double a = filter_.antialias ? kAntialiased : kPlain;
    const auto times_t_plus = [&](const Argument &x, double b) {
      return call(kAdd, {call(kMul, {x, t}), b});
    };
    const Argument line = call(kSub, {call(kMul, {t, a + 2}), a + 3});
    const Argument near = times_t_plus(call(kMul, {line, t}), 1);
    const Argument far =
        times_t_plus(times_t_plus(call(kSub, {call(kMul, {t, a}), 5 * a}), 8 * a), -4 * a);
    const Argument is_far = call("aten.lt.Scalar", {t, 2.0});
    return call(kWhere, {is_near, near, call(kWhere, {is_far, far, 0.0})});
  }

  void antialiased() {
    const Argument centre = call(kMul, {call(kAdd, {at_, 0.5}), filter_.scale});
    const auto bound = [&](double distance) {
      const Argument edge = call(kAdd, {call(kAdd, {centre, distance}), 0.5});
      return convert(builder_, edge, DType::i64);
    };
    const Argument first = call("aten.maximum.default", {bound(-filter_.support), 0});
    const Argument end = call("aten.minimum.default", {bound(filter_.support), filter_.from});
    const Argument place = call(kAdd, {first, tap_});
    const Argument apart =
        call(kAdd, {call(kSub, {convert(builder_, place, DType::f64), centre}), 0.5});
    const Argument all = weight(call(kMul, {apart, filter_.narrowing()}));
    counts_ = call("aten.lt.Tensor", {place, end});
    const Argument own = call(kWhere, {counts_, all, 0.0});
    const Argument total = call("aten.sum.dim_IntList", {own, Arguments{1}, true});
    weights_ = call(kDiv, {own, total});
    places_ = call("aten.minimum.default", {place, filter_.from - 1});
  }

  /// Weights of one element add up before they are rounded: the first of its taps has them.
  void plain() {
    Argument source = call(kMul, {at_, filter_.scale});
    if (!filter_.align_corners)
      source = call(kSub, {call(kMul, {call(kAdd, {at_, 0.5}), filter_.scale}), 0.5});
    if (filter_.clamps_start())
      source = call("aten.maximum.default", {source, 0.0});
    const Argument floor = convert(builder_, call("aten.floor.default", {source}), DType::i64);
    const Argument below = call("aten.minimum.default", {floor, filter_.from - 1});
    const Argument part =
        held(call(kSub, {source, convert(builder_, below, DType::f64)}), 0.0, 1.0);
    const int64_t half = filter_.taps / 2;
    const Argument tap = convert(builder_, call(kAdd, {tap_, 1 - half}), DType::f64);
    const Argument each = weight(call(kSub, {tap, part}));
    const Argument free = call(kAdd, {call(kAdd, {below, 1 - half}), tap_});
    places_ = held(free, 0, filter_.from - 1);
    const Argument before = held(call(kSub, {free, 1}), 0, filter_.from - 1);
    const Argument is_first =
        call("aten.logical_or.default",
             {call("aten.eq.Scalar", {tap_, 0}), call("aten.ne.Tensor", {places_, before})});
    const Argument shares = call("aten.eq.Tensor", {call("aten.unsqueeze.default", {places_, 2}),
                                                    call("aten.unsqueeze.default", {places_, 1})});
    const Argument shared = call(kWhere, {shares, call("aten.unsqueeze.default", {each, 1}), 0.0});
    const Argument sums = call("aten.sum.dim_IntList", {shared, Arguments{2}, false});
    weights_ = call(kWhere, {is_first, sums, 0.0});
  }
};

/// What the taps see along one dimension of `x`, in a dimension behind it.
Argument seen_by(GraphBuilder &builder, const Taps &taps, const Filter &filter, const Argument &x,
                 const Axis &axis) {
  const Argument flat = builder.call("aten.reshape.default", {taps.places(), Arguments{-1}});
  const Argument gathered =
      builder.call("aten.index_select.default", {x, static_cast<int64_t>(axis.dim), flat});
  std::vector<Expr> apart = builder.meta(x).layout.sizes;
  apart[axis.dim] = Expr(filter.to);
  apart.insert(apart.begin() + static_cast<std::ptrdiff_t>(axis.dim) + 1, Expr(filter.taps));
  return builder.call("aten.reshape.default", {gathered, sizes_argument(apart)});
}

/// [to, taps] so that it broadcasts with what the taps of a dimension of `x` see.
Argument before_the_rest(GraphBuilder &builder, Argument values, const Argument &x,
                         const Axis &axis) {
  for (size_t i = axis.dim + 1; i < builder.meta(x).layout.rank(); ++i)
    values = builder.call("aten.unsqueeze.default", {values, -1});
  return values;
}

/// `x`, uint8, along one dimension.
Argument along(GraphBuilder &builder, const Argument &x, const Axis &axis, const Filter &filter) {
  const Taps taps(builder, filter, builder.meta(x).device);
  const int64_t precision = filter.precision();
  const auto dim = static_cast<int64_t>(axis.dim);
  const Argument seen = seen_by(builder, taps, filter, x, axis);
  const Argument weights = before_the_rest(builder, taps.weights(precision), x, axis);
  const Argument terms = builder.call(kMul, {convert(builder, seen, DType::i32), weights});
  const Argument sum = builder.call("aten.sum.dim_IntList", {terms, Arguments{dim + 1}, false},
                                    {{"dtype", DType::i32}});
  const int64_t half = precision > 0 ? int64_t{1} << (precision - 1) : 0;
  const Argument shifted = builder.call("aten.bitwise_right_shift.Tensor_Scalar",
                                        {builder.call(kAdd, {sum, half}), precision});
  const Argument held = builder.call("aten.clamp.default", {shifted, 0, 255});
  return convert(builder, held, DType::u8);
}

} // namespace

Argument antialiased_along(GraphBuilder &builder, const Argument &x, const Axis &axis, bool cubic,
                           bool align_corners) {
  const Filter filter(axis, cubic, true, align_corners);
  const TensorMeta meta = builder.meta(x);
  const Taps taps(builder, filter, meta.device);
  const Argument seen = seen_by(builder, taps, filter, x, axis);
  const Argument weights =
      before_the_rest(builder, convert(builder, taps.whole_weights(), meta.dtype), x, axis);
  const Argument counts = before_the_rest(builder, taps.counts(), x, axis);
  const Argument terms = builder.call(kWhere, {counts, builder.call(kMul, {seen, weights}), 0.0});
  return builder.call("aten.sum.dim_IntList",
                      {terms, Arguments{static_cast<int64_t>(axis.dim) + 1}, false});
}

Argument resample_bytes(GraphBuilder &builder, const Call &call, const Argument &input,
                        const std::vector<Axis> &axes, bool cubic, bool antialias) {
  Argument x = input;
  for (size_t i = axes.size(); i-- > 0;) {
    const Axis &axis = axes[i];
    if (!axis.is_static())
      call.refuse("TSC-O016",
                  call.node().target + " of uint8: a dimension of size '" +
                      symbolic::print(axis.from.is_integer() ? axis.to : axis.from) +
                      "', a number is needed",
                  "convert to a floating dtype first, or export with fixed sizes");
    if (axis.from == axis.to)
      continue;
    x = along(builder, x, axis, {axis, cubic, antialias, call.boolean("align_corners")});
  }
  return x == input ? builder.call("aten.clone.default", {x}) : x;
}

} // namespace tsc::ops
