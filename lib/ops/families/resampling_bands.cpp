#include "ops/families/resampling_bands.h"

#include "ops/families/windows.h"
#include "ops/table/builder.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

namespace tsc::ops {

namespace {

using Sizes = std::vector<Expr>;

constexpr int64_t kMostTaps = 64;     // of an element, in one pass
constexpr int64_t kMostTogether = 32; // of an element, where a pass takes several dimensions
constexpr int64_t kMostLookups = 16;  // of an element

/// First and last element that output `at` takes from: as the taps are computed, in `Number`.
template <class Number>
std::pair<int64_t, int64_t> sources(const Axis &axis, Method method, bool align_corners,
                                    int64_t at) {
  const int64_t from = axis.from.value(), to = axis.to.value(), last = from - 1;
  const bool by_factor = !align_corners && axis.factor && *axis.factor > 0;
  const Number step =
      align_corners
          ? (to > 1 ? static_cast<Number>(static_cast<double>(last) / static_cast<double>(to - 1))
                    : Number(0))
      : by_factor ? static_cast<Number>(1.0 / *axis.factor)
                  : static_cast<Number>(static_cast<double>(from) / static_cast<double>(to));
  const auto inside = [&](double element) {
    return static_cast<int64_t>(std::clamp(element, 0.0, static_cast<double>(last)));
  };
  const auto place = static_cast<Number>(at);
  if (method == Method::nearest || method == Method::nearest_exact) {
    const Number source = (method == Method::nearest ? place : place + Number(0.5)) * step;
    const int64_t element = inside(std::floor(static_cast<double>(source)));
    return {element, element};
  }
  const Number source =
      align_corners ? place * step : std::fma(place + Number(0.5), step, Number(-0.5));
  const double base = std::floor(static_cast<double>(source));
  if (method == Method::linear)
    return {inside(base), inside(std::max(base, 0.0) + 1)};
  return {inside(base - 1), inside(base + 2)};
}

/// Outputs floor((number * i + offset) / of) and so many behind it hold all that took from input i.
struct Band {
  int64_t number = 1, of = 1, offset = 0, taps = 1;
};

Band band_of(const Axis &axis, Method method, bool align_corners) {
  const int64_t from = axis.from.value(), to = axis.to.value();
  std::vector<int64_t> first(static_cast<size_t>(from), to), last(static_cast<size_t>(from), -1);
  const auto take = [&](std::pair<int64_t, int64_t> range, int64_t at) {
    for (int64_t i = range.first; i <= range.second; ++i) {
      first[static_cast<size_t>(i)] = std::min(first[static_cast<size_t>(i)], at);
      last[static_cast<size_t>(i)] = std::max(last[static_cast<size_t>(i)], at);
    }
  };
  for (int64_t at = 0; at < to; ++at) {
    take(sources<float>(axis, method, align_corners, at), at);
    take(sources<double>(axis, method, align_corners, at), at);
  }
  Band band;
  const bool corners = align_corners && from > 1 && to > 1;
  band.number = corners ? to - 1 : to;
  band.of = corners ? from - 1 : from;
  const int64_t common = std::gcd(band.number, band.of);
  band.number /= common;
  band.of /= common;
  band.offset = INT64_MAX;
  for (int64_t i = 0; i < from; ++i)
    if (last[static_cast<size_t>(i)] >= 0)
      band.offset =
          std::min(band.offset, first[static_cast<size_t>(i)] * band.of - i * band.number);
  for (int64_t i = 0; i < from; ++i) {
    const int64_t shifted = i * band.number + band.offset;
    const int64_t start = shifted >= 0 ? shifted / band.of : -((-shifted + band.of - 1) / band.of);
    band.taps = std::max(band.taps, last[static_cast<size_t>(i)] - start + 1);
  }
  return band;
}

/// What each element was weighed by, [taps, from], in memory: NaN where output and element have
/// nothing to do with each other, for an infinite gradient elsewhere is none of the element's.
Term weights_of(GraphBuilder &builder, const TensorMeta &meta, const Axis &axis, const Band &band,
                Method method, bool align_corners, const Term &places) {
  const Term outputs =
      places.then("aten.maximum.default", {0}).then("aten.minimum.default", {axis.to.value() - 1});
  const Term inside = equal(places, outputs), element = counting(builder, axis.from, meta.device);
  std::vector<Tap> taps;
  if (method == Method::nearest || method == Method::nearest_exact)
    taps.push_back({nearest_positions(builder, axis, method == Method::nearest_exact, meta.device),
                    Argument()});
  else
    taps = interpolation_taps(builder, meta, axis, method, align_corners);
  const auto at_outputs = [&](const Argument &vector) {
    return reshaped(Term(builder, vector), {axis.to})
        .then("aten.index.Tensor", {Arguments{outputs.value()}});
  };
  std::optional<Term> takes, weights;
  for (const Tap &tap : taps) {
    const Term own = both(inside, equal(at_outputs(tap.positions), element));
    const Argument weight =
        tap.weights.is_none()
            ? filled(builder, {Expr(band.taps), axis.from}, 1.0, meta.dtype, meta.device).value()
            : at_outputs(tap.weights).value();
    const Term share = where(own, weight, 0.0);
    takes = takes ? either(*takes, own) : own;
    weights = weights ? *weights + share : share;
  }
  const Term table = where(*takes, *weights, std::nan(""));
  return {builder, builder.emit("tsc.stored.default", {table.value()})};
}

/// [taps, from]: which output a tap is, also beyond the ends.
Term places_of(GraphBuilder &builder, const Axis &axis, const Band &band, tensor::Device device) {
  const Term element = counting(builder, axis.from, device) * Argument(band.number);
  const Term start = (element + Argument(band.offset))
                         .then("aten.div.Tensor_mode", {band.of}, {{"rounding_mode", "floor"}});
  return start + reshaped(counting(builder, Expr(band.taps), device), {Expr(band.taps), Expr(1)});
}

Term weighed(const Term &x, const Term &weights) {
  return where(equal(weights, weights), x * weights, 0.0);
}

/// Several dimensions at a time, next to each other in `axes`.
Term by_windows(const Term &x, const std::vector<Axis> &axes, const std::vector<Band> &bands,
                Method method, bool align_corners) {
  GraphBuilder &builder = x.builder();
  const TensorMeta meta = x.meta();
  const size_t rank = meta.layout.rank(), count = axes.size(), first = axes[0].dim;
  Window window;
  Sizes positions;
  std::optional<Term> weights;
  for (size_t k = 0; k < count; ++k) {
    window.kernel.emplace_back(bands[k].taps);
    window.stride.emplace_back(bands[k].number);
    window.padding.emplace_back(-bands[k].offset);
    window.dilation.emplace_back(1);
    positions.push_back(axes[k].from);
  }
  // Windows go over the last dimensions.
  std::vector<size_t> order, back;
  for (size_t i = 0; i < rank; ++i)
    if (i < first || i >= first + count)
      order.push_back(i);
  for (size_t k = 0; k < count; ++k)
    order.push_back(first + k);
  for (size_t i = 0; i < rank; ++i)
    back.push_back(static_cast<size_t>(std::find(order.begin(), order.end(), i) - order.begin()));
  const Term opened(builder, windows_of(builder, permuted(x, order), positions, window, 0.0));
  std::vector<size_t> taps;
  for (size_t k = 0; k < count; ++k) {
    const Term places = places_of(builder, axes[k], bands[k], meta.device);
    const Term table = permuted(
        weights_of(builder, meta, axes[k], bands[k], method, align_corners, places), {1, 0});
    Sizes sizes(2 * count, Expr(1));
    sizes[k] = axes[k].from;
    sizes[count + k] = Expr(bands[k].taps);
    const Term own = reshaped(table, sizes);
    weights = weights ? *weights * own : own;
    taps.push_back(rank + k);
  }
  return permuted(sum(weighed(opened, *weights), taps, false), back);
}

Term by_lookups(const Term &x, const Axis &axis, const Band &band, Method method,
                bool align_corners) {
  GraphBuilder &builder = x.builder();
  const TensorMeta meta = x.meta();
  const Term places = places_of(builder, axis, band, meta.device);
  const Term table = weights_of(builder, meta, axis, band, method, align_corners, places);
  std::optional<Term> total;
  for (int64_t tap = 0; tap < band.taps; ++tap) {
    const Term place = places.then("aten.select.int", {0, tap})
                           .then("aten.maximum.default", {0})
                           .then("aten.minimum.default", {axis.to.value() - 1});
    const Term taken =
        x.then("aten.index_select.default", {static_cast<int64_t>(axis.dim), place.value()});
    Sizes sizes = {axis.from};
    sizes.insert(sizes.end(), meta.layout.rank() - axis.dim - 1, Expr(1));
    const Term share = weighed(taken, reshaped(table.then("aten.select.int", {0, tap}), sizes));
    total = total ? *total + share : share;
  }
  return *total;
}

} // namespace

std::optional<Term> gathered_gradient(const Term &x, const std::vector<Axis> &axes, Method method,
                                      bool align_corners) {
  std::vector<Band> bands;
  for (const Axis &axis : axes) {
    if (!axis.is_static() || axis.to.value() == 0 || axis.from.value() == 0)
      return std::nullopt;
    Band band = band_of(axis, method, align_corners);
    if (band.of == 1 && band.offset > 0) {
      band.taps += band.offset;
      band.offset = 0;
    }
    if (band.taps > (band.of == 1 ? kMostTaps : kMostLookups))
      return std::nullopt;
    bands.push_back(band);
  }
  Term result = x;
  for (size_t begin = 0, end; begin < axes.size(); begin = end) {
    int64_t taps = bands[begin].taps;
    for (end = begin + 1;
         end < axes.size() && bands[begin].of == 1 && bands[end].of == 1 &&
         axes[end].dim == axes[end - 1].dim + 1 && taps * bands[end].taps <= kMostTogether;
         ++end)
      taps *= bands[end].taps;
    const auto at = static_cast<ptrdiff_t>(begin), behind = static_cast<ptrdiff_t>(end);
    result = bands[begin].of == 1
                 ? by_windows(result, {axes.begin() + at, axes.begin() + behind},
                              {bands.begin() + at, bands.begin() + behind}, method, align_corners)
                 : by_lookups(result, axes[begin], bands[begin], method, align_corners);
  }
  return result;
}

} // namespace tsc::ops
