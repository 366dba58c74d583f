// Pooling: reductions over sliding windows of [N, C, spatial..] or [C, spatial..].
#include "ops/families/pooling.h"

#include "graph/indicators.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

void check_rank(const Call &call, size_t rank) {
  const size_t given = call.tensor("self").layout.rank();
  if (given == rank + 1 || given == rank + 2)
    return;
  static constexpr std::string_view kSpatial[] = {"", "L", "H, W", "D, H, W"};
  const std::string spatial(kSpatial[rank]);
  call.fail("TSC-O048", call.node().target + " of " + print_sizes(call.tensor("self").layout.sizes),
            "pass [N, C, " + spatial + "] or [C, " + spatial + "]");
}

/// How often the window fits; with ceil_mode a last one may reach over the end, if it starts
/// inside.
Expr pooled(const Call &call, Expr size, const Window &window, size_t i) {
  const Expr stride = window.stride[i], padding = window.padding[i];
  const Expr span =
      size + Expr(2) * padding - window.dilation[i] * (window.kernel[i] - Expr(1)) - Expr(1);
  if (!call.boolean("ceil_mode"))
    return symbolic::simplify(symbolic::floor_div(span, stride) + Expr(1), call.ranges());
  const Expr length = symbolic::ceil_div(span, stride) + Expr(1);
  const Expr starts_outside =
      graph::less_or_equal(size + padding, (length - Expr(1)) * stride); // 1 or 0
  return symbolic::simplify(length - starts_outside, call.ranges());
}

/// A pool of `self` with these positions. In three dimensions PyTorch keeps the order of max_pool3d
/// alone.
tensor::Layout pooled_layout(const TensorMeta &self, const Sizes &positions, bool is_max_pool) {
  Sizes sizes = self.layout.sizes;
  std::copy(positions.begin(), positions.end(),
            sizes.end() - static_cast<ptrdiff_t>(positions.size()));
  return positions.size() == 3 && !is_max_pool
             ? tensor::contiguous_layout(sizes)
             : value_like(self, self.dtype, sizes).tensor()->layout;
}

/// What no element is below.
Argument lowest(DType dtype) {
  if (tensor::is_floating(dtype))
    return -INFINITY;
  switch (dtype) {
  case DType::i64:
    return std::numeric_limits<int64_t>::min();
  case DType::i32:
    return static_cast<int64_t>(std::numeric_limits<int32_t>::min());
  case DType::i16:
    return static_cast<int64_t>(std::numeric_limits<int16_t>::min());
  case DType::i8:
    return static_cast<int64_t>(std::numeric_limits<int8_t>::min());
  default:
    return 0;
  }
}

/// What a window comes to is what its rows come to: one dimension after the other, each for a
/// kernel that reads few taps and what the one before it stored. Picoseconds that this saves of a
/// result, for elements of `bytes` (by the cost model of sm_90: 0.29 a tap; 0.49 a byte of memory
/// that is written and read); of the largest element's place, which is looked for in a second walk,
/// measured on an H100: 0.72 a tap of windows that registers hold, 3.5 of others. Where tiles of
/// results are whole, threads have their windows in runs of 16 bytes: 0.12 a tap of a window of all
/// dimensions (depthwise 7 x 7, H200).
double saved_one_by_one(const Sizes &sizes, const Sizes &positions, const Sizes &kernel,
                        size_t bytes, bool with_places) {
  constexpr double kTap = 0.29, kByte = 0.49, kPlaceTap = 0.72, kFarPlaceTap = 3.5;
  constexpr double kHeldTaps = 32, kPlaceBytes = 4, kTapOfTile = 0.12;
  constexpr int64_t kTile = 4;
  const auto is_number = [](Expr e) { return e.is_integer(); };
  for (const Sizes *list : {&sizes, &positions, &kernel})
    if (!std::all_of(list->begin(), list->end(), is_number))
      return 0;
  double taps = 1, apart = 0, elements = 1; // elements of the result; others in its units
  for (size_t k = 0; k < kernel.size(); ++k) {
    taps *= static_cast<double>(kernel[k].value());
    elements *= static_cast<double>(positions[k].value());
  }
  if (elements < 1 || kernel.size() < 2)
    return 0;
  const auto of_taps = [&](double count) {
    return count * (!with_places ? kTap : count > kHeldTaps ? kFarPlaceTap : kPlaceTap);
  };
  const double moved = static_cast<double>(bytes) + (with_places ? kPlaceBytes : 0);
  double stored = 1; // of the stage behind
  for (size_t k = 0; k < kernel.size(); ++k) {
    apart +=
        stored * (of_taps(static_cast<double>(kernel[k].value())) + (k > 0 ? kByte * moved : 0));
    stored *= static_cast<double>(sizes[k].value()) / static_cast<double>(positions[k].value());
  }
  const bool in_tiles =
      !with_places && positions.back().value() % kTile == 0 && sizes.back().value() % kTile == 0;
  return (in_tiles ? taps * kTapOfTile : of_taps(taps)) - apart;
}

/// Windows over something, taps in the last dimensions: sliding ones or adaptive ones.
using WindowsOf = std::function<Argument(const Argument &x, const Argument &fill)>;

/// The largest element of each window.
Argument largest(GraphBuilder &builder, const Argument &self, const WindowsOf &slide, size_t rank) {
  const TensorMeta meta = builder.meta(self);
  const Argument windows = slide(self, lowest(meta.dtype));
  return builder.call("aten.amax.default",
                      {windows, dimensions_from(meta.layout.rank(), rank), false});
}

/// Where elements lie in the flattened spatial dimensions, such that the least number tells which
/// one a window takes: the first of equal ones, but the last NaN if there is any (below 0: -1 -
/// its position).
struct Places {
  Argument numbers;
  int64_t nowhere = 0;
};
Places places_of(GraphBuilder &builder, const Argument &self, size_t rank) {
  const TensorMeta meta = builder.meta(self);
  Sizes sizes = spatial_sizes(meta, rank);
  // In 32 bits where they fit: half the instructions, and bytes of what is kept for the gradient.
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const std::optional<int64_t> count = symbolic::numel(sizes).as_integer();
  const DType dtype = count && *count < kMost ? DType::i32 : DType::i64;
  Argument positions =
      builder.call("aten.arange.start_step", {0, size_argument(symbolic::numel(sizes)), 1},
                   {{"dtype", dtype}, {"device", meta.device}});
  sizes.insert(sizes.begin(), meta.layout.rank() - rank, Expr(1));
  return {builder.call("aten.reshape.default", {positions, sizes_argument(sizes)}),
          dtype == DType::i32 ? kMost : std::numeric_limits<int64_t>::max()};
}
/// The least of the numbers of those elements of each window that are its `largest`.
Argument number_of_largest(GraphBuilder &builder, const Argument &self, const Places &places,
                           const Argument &largest, const WindowsOf &slide, size_t rank,
                           bool numbers_tell_nan) {
  const TensorMeta meta = builder.meta(self);
  const Argument numbers = slide(places.numbers, places.nowhere);
  const Argument windows = slide(self, lowest(meta.dtype));
  Argument spread = largest;
  for (size_t i = 0; i < rank; ++i)
    spread = builder.call("aten.unsqueeze.default", {spread, -1});
  const Argument equal = builder.call("aten.eq.Tensor", {windows, spread});
  Argument candidates = builder.call(kWhere, {equal, numbers, places.nowhere});
  if (tensor::is_floating(meta.dtype)) {
    const Argument reversed = numbers_tell_nan ? numbers : builder.call(kSub, {-1, numbers});
    const Argument nan = builder.call("aten.isnan.default", {windows});
    candidates = builder.call(kWhere, {nan, reversed, candidates});
  }
  return builder.call("aten.amin.default",
                      {candidates, dimensions_from(meta.layout.rank(), rank), false});
}
/// The position that such a number means.
Argument position_of(GraphBuilder &builder, Argument number, DType of) {
  if (tensor::is_floating(of)) { // -1 - number where that is negative
    const int64_t sign_bit = builder.meta(number).dtype == DType::i32 ? 31 : 63;
    const Argument sign =
        builder.call("aten.bitwise_right_shift.Tensor_Scalar", {number, sign_bit});
    number = builder.call("aten.bitwise_xor.Tensor", {number, sign});
  }
  return convert(builder, number, DType::i64);
}

Arguments max_pool(GraphBuilder &builder, const Call &call, size_t rank, bool with_indices) {
  check_rank(call, rank);
  const TensorMeta self = call.tensor("self");
  const Window window = pooling_window(call, rank);
  const Sizes positions = pooled_sizes(call, window);
  const tensor::Layout layout = pooled_layout(self, positions, true);
  Argument values = call["self"];
  Places places;
  if (with_indices)
    places = places_of(builder, values, rank);
  bool tells_nan = false;
  for (const Stage &stage : stages_of(self, positions, window, tensor::size_in_bytes(self.dtype),
                                      nullptr, with_indices)) {
    const WindowsOf slide = [&](const Argument &x, const Argument &fill) {
      return windows_of(builder, x, stage.positions, stage.window, fill);
    };
    const Argument most = largest(builder, values, slide, rank);
    if (with_indices)
      places.numbers = number_of_largest(builder, values, places, most, slide, rank, tells_nan);
    tells_nan = true;
    values = most;
  }
  Arguments results = {in_layout(builder, values, layout)};
  if (with_indices)
    results.push_back(in_layout(builder, position_of(builder, places.numbers, self.dtype), layout));
  return results;
}

/// For each position of one dimension the elements that its window holds, as a column that
/// broadcasts over the dimensions after it. Those of the padding count if `padded`.
Argument window_lengths(GraphBuilder &builder, const Call &call, Expr size, Expr positions,
                        const Window &window, size_t i, bool padded) {
  const Expr padding = window.padding[i];
  Argument start = builder.call("aten.arange.start_step", {0, size_argument(positions), 1},
                                {{"dtype", DType::i64}, {"device", call.tensor("self").device}});
  start = builder.call(kMul, {start, size_argument(window.stride[i])});
  start = builder.call(kSub, {start, size_argument(padding)});
  Argument end = builder.call(kAdd, {start, size_argument(window.kernel[i])});
  end = builder.call("aten.minimum.default", {end, size_argument(padded ? size + padding : size)});
  if (!padded)
    start = builder.call("aten.maximum.default", {start, 0});
  Argument length = builder.call(kSub, {end, start});
  for (size_t k = i + 1; k < window.rank(); ++k)
    length = builder.call("aten.unsqueeze.default", {length, -1});
  return length;
}

/// sums / divisor in the dtype of `self`; integers are cut off.
Argument average(GraphBuilder &builder, const Argument &sums, const Argument &divisor,
                 DType dtype) {
  if (tensor::is_floating(dtype)) {
    Argument count = divisor;
    if (divisor.node())
      count = convert(builder, divisor, builder.meta(sums).dtype);
    return convert(builder, builder.call(kDiv, {sums, count}), dtype);
  }
  const Argument quotient = builder.call("aten.div.Tensor_mode", {sums, divisor},
                                         {{"rounding_mode", std::string("trunc")}});
  return convert(builder, quotient, dtype);
}

Argument avg_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  check_rank(call, rank);
  const TensorMeta self = call.tensor("self");
  const Window window = pooling_window(call, rank);
  const Sizes positions = pooled_sizes(call, window);
  Argument sums = widen(builder, call["self"]);
  const size_t bytes = tensor::size_in_bytes(builder.meta(sums).dtype);
  for (const Stage &stage : stages_of(self, positions, window, bytes))
    sums = builder.call("aten.sum.dim_IntList",
                        {windows_of(builder, sums, stage.positions, stage.window, 0),
                         dimensions_from(self.layout.rank(), rank), false});
  const Argument divisor = pooling_divisor(builder, call, window, positions);
  return in_layout(builder, average(builder, sums, divisor, self.dtype),
                   pooled_layout(self, positions, false));
}

// ---- adaptive

Sizes adaptive_positions(const Call &call, size_t rank) {
  check_rank(call, rank);
  const Sizes positions = spread(call, "output_size", rank, Expr(1));
  const Sizes sizes = spatial_sizes(call.tensor("self"), rank);
  for (size_t i = 0; i < rank; ++i)
    if (sizes[i].is_integer(0) || (positions[i].is_integer() && positions[i].value() < 0))
      call.fail("TSC-O048",
                call.node().target + " of " + print_sizes(call.tensor("self").layout.sizes) +
                    " to " + print_sizes(positions),
                "pass dimensions with at least one element, and sizes that are not negative");
  return positions;
}

/// How many elements each window of one dimension holds.
Argument adaptive_lengths(GraphBuilder &builder, Expr size, Expr positions, size_t after,
                          tensor::Device device) {
  Argument position = builder.call("aten.arange.start_step", {0, size_argument(positions), 1},
                                   {{"dtype", DType::i64}, {"device", device}});
  const Argument scaled = builder.call(kMul, {position, size_argument(size)});
  const Keywords floor = {{"rounding_mode", std::string("floor")}};
  const Argument start =
      builder.call("aten.div.Tensor_mode", {scaled, size_argument(positions)}, floor);
  const Argument shifted = builder.call(kAdd, {scaled, size_argument(size + positions - Expr(1))});
  const Argument end =
      builder.call("aten.div.Tensor_mode", {shifted, size_argument(positions)}, floor);
  Argument length = builder.call(kSub, {end, start});
  for (size_t i = 0; i < after; ++i)
    length = builder.call("aten.unsqueeze.default", {length, -1});
  return length;
}

/// No windows: nothing to reduce.
bool is_empty(const Sizes &positions) {
  return std::any_of(positions.begin(), positions.end(), [](Expr e) { return e.is_integer(0); });
}
Argument no_windows(GraphBuilder &builder, const tensor::Layout &layout, DType dtype,
                    tensor::Device device) {
  return builder.call("aten.empty_strided.default",
                      {sizes_argument(layout.sizes), sizes_argument(layout.strides)},
                      {{"dtype", dtype}, {"device", device}});
}

Argument adaptive_avg_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  const TensorMeta self = call.tensor("self");
  const Sizes positions = adaptive_positions(call, rank), sizes = spatial_sizes(self, rank);
  if (is_empty(positions))
    return no_windows(builder, pooled_layout(self, positions, false), self.dtype, self.device);
  const size_t lead = self.layout.rank() - rank;
  if (std::all_of(positions.begin(), positions.end(), [](Expr e) { return e.is_integer(1); }))
    return builder.call("aten.mean.dim", {call["self"], dimensions_from(lead, rank), true});
  const Argument windows = adaptive_windows_of(builder, call["self"], positions, 0);
  const Argument sums =
      builder.call("aten.sum.dim_IntList",
                   {widen(builder, windows), dimensions_from(self.layout.rank(), rank), false});
  const Argument divisor = adaptive_divisor(builder, sizes, positions, self.device);
  return in_layout(builder, average(builder, sums, divisor, self.dtype),
                   pooled_layout(self, positions, false));
}

Arguments adaptive_max_pool(GraphBuilder &builder, const Call &call, size_t rank) {
  const TensorMeta self = call.tensor("self");
  const Sizes positions = adaptive_positions(call, rank);
  const WindowsOf windows = [&](const Argument &x, const Argument &fill) {
    return adaptive_windows_of(builder, x, positions, fill);
  };
  const tensor::Layout layout = pooled_layout(self, positions, false);
  if (is_empty(positions))
    return {no_windows(builder, layout, self.dtype, self.device),
            no_windows(builder, layout, DType::i64, self.device)};
  const Argument values = largest(builder, call["self"], windows, rank);
  const Argument number = number_of_largest(
      builder, call["self"], places_of(builder, call["self"], rank), values, windows, rank, false);
  return {in_layout(builder, values, layout),
          in_layout(builder, position_of(builder, number, self.dtype), layout)};
}

// ---- rows

void add_max_pools(Table &table, size_t rank) {
  const std::string dims = std::to_string(rank), ints = "int[" + dims + "] ";
  const std::string parameters = "(Tensor self, " + ints + "kernel_size, " + ints + "stride=[], " +
                                 ints + "padding=0, " + ints +
                                 "dilation=1, bool ceil_mode=False) -> ";
  table.add(keep_text("max_pool" + dims + "d" + parameters + "Tensor"))
      .decompose([rank](GraphBuilder &builder, const Call &call) {
        return max_pool(builder, call, rank, false)[0];
      });
  table.add(keep_text("max_pool" + dims + "d_with_indices" + parameters + "(Tensor, Tensor)"))
      .decompose([rank](GraphBuilder &builder, const Call &call) {
        return max_pool(builder, call, rank, true);
      });
  table
      .add(keep_text("adaptive_max_pool" + dims + "d(Tensor self, " + ints +
                     "output_size) -> (Tensor, Tensor)"))
      .decompose([rank](GraphBuilder &builder, const Call &call) {
        return adaptive_max_pool(builder, call, rank);
      });
}

void add_avg_pools(Table &table, size_t rank) {
  const std::string dims = std::to_string(rank), ints = "int[" + dims + "] ";
  table
      .add(keep_text("avg_pool" + dims + "d(Tensor self, " + ints + "kernel_size, " + ints +
                     "stride=[], " + ints +
                     "padding=0, bool ceil_mode=False, bool count_include_pad=True" +
                     (rank == 1 ? "" : ", int? divisor_override=None") + ") -> Tensor"))
      .decompose([rank](GraphBuilder &builder, const Call &call) {
        return avg_pool(builder, call, rank);
      });
  std::vector<std::string> names = {"adaptive_avg_pool" + dims + "d"};
  if (rank > 1)
    names.push_back("_" + names[0]);
  for (const std::string &name : names)
    table.add(keep_text(name + "(Tensor self, SymInt[" + dims + "] output_size) -> Tensor"))
        .decompose([rank](GraphBuilder &builder, const Call &call) {
          return adaptive_avg_pool(builder, call, rank);
        });
}

} // namespace

std::vector<Expr> spatial_sizes(const TensorMeta &self, size_t rank) {
  return Sizes(self.layout.sizes.end() - static_cast<ptrdiff_t>(rank), self.layout.sizes.end());
}

std::vector<Stage> stages_of(const TensorMeta &x, const Sizes &positions, const Window &window,
                             size_t bytes, const Sizes *kernel, bool with_places) {
  constexpr double kKernel = 2.5e6; // picoseconds
  const size_t rank = window.rank();
  Sizes at = spatial_sizes(x, rank);
  const auto before = symbolic::numel(x.layout.sizes).as_integer(),
             spatial = symbolic::numel(at).as_integer(),
             after = symbolic::numel(positions).as_integer();
  if (!before || !spatial || !after || *spatial == 0)
    return {{window, positions}};
  const auto results = static_cast<double>(*before / *spatial * *after);
  if (results *
          saved_one_by_one(at, positions, kernel ? *kernel : window.kernel, bytes, with_places) <=
      kKernel * static_cast<double>(rank - 1))
    return {{window, positions}};
  std::vector<Stage> stages;
  for (size_t k = rank; k-- > 0;) {
    Window line{Sizes(rank, Expr(1)), Sizes(rank, Expr(1)), Sizes(rank, Expr(0)),
                Sizes(rank, Expr(1))};
    line.kernel[k] = window.kernel[k];
    line.stride[k] = window.stride[k];
    line.padding[k] = window.padding[k];
    line.dilation[k] = window.dilation[k];
    at[k] = positions[k];
    stages.push_back({std::move(line), at});
  }
  return stages;
}

Window pooling_window(const Call &call, size_t rank) {
  Window window;
  window.kernel = spread(call, "kernel_size", rank, Expr(1));
  window.stride =
      call.sizes("stride").empty() ? window.kernel : spread(call, "stride", rank, Expr(1));
  window.padding = spread(call, "padding", rank, Expr(0));
  window.dilation = spread(call, "dilation", rank, Expr(1));
  for (size_t i = 0; i < rank; ++i) {
    const auto below = [](Expr e, int64_t least) { return e.is_integer() && e.value() < least; };
    if (below(window.kernel[i], 1) || below(window.stride[i], 1) || below(window.dilation[i], 1))
      call.fail("TSC-O048",
                call.node().target + " with a window of " + print_sizes(window.kernel) +
                    ", stride " + print_sizes(window.stride) + ", dilation " +
                    print_sizes(window.dilation),
                "use 1 or more");
    const Expr padding = window.padding[i], kernel = window.kernel[i];
    if (padding.is_integer() && kernel.is_integer() &&
        (padding.value() < 0 || padding.value() > kernel.value() / 2))
      call.fail("TSC-O048",
                call.node().target + " with padding " + print_sizes(window.padding) +
                    " of a window of " + print_sizes(window.kernel),
                "pad by half of the window at most");
  }
  return window;
}

std::vector<Expr> pooled_sizes(const Call &call, const Window &window) {
  const size_t rank = window.rank();
  const Sizes sizes = spatial_sizes(call.tensor("self"), rank);
  Sizes result;
  for (size_t i = 0; i < rank; ++i) {
    result.push_back(pooled(call, sizes[i], window, i));
    if (result[i].is_integer() && result[i].value() < 1)
      call.fail("TSC-O048",
                call.node().target + ": a window of " + print_sizes(window.kernel) +
                    " does not fit into " + print_sizes(call.tensor("self").layout.sizes),
                "make the input larger, or pad it");
  }
  return result;
}

Argument pooling_divisor(GraphBuilder &builder, const Call &call, const Window &window,
                         const Sizes &positions) {
  const bool has_override = call.schema().parameters.back().name == "divisor_override";
  if (has_override && call.has("divisor_override"))
    return call["divisor_override"];
  const bool padded = call.boolean("count_include_pad");
  const Sizes sizes = spatial_sizes(call.tensor("self"), window.rank());
  Expr same(1);
  std::optional<Argument> varying;
  for (size_t i = 0; i < window.rank(); ++i) {
    const Expr last = (positions[i] - Expr(1)) * window.stride[i] + window.kernel[i];
    const bool whole =
        (padded || window.padding[i].is_integer(0)) &&
        symbolic::known_less_equal(last, sizes[i] + Expr(2) * window.padding[i], call.ranges());
    if (whole) {
      same *= window.kernel[i];
      continue;
    }
    const Argument length =
        window_lengths(builder, call, sizes[i], positions[i], window, i, padded);
    varying = varying ? builder.call(kMul, {*varying, length}) : length;
  }
  if (!varying)
    return size_argument(same);
  return same.is_integer(1) ? *varying : builder.call(kMul, {*varying, size_argument(same)});
}

Argument adaptive_divisor(GraphBuilder &builder, const Sizes &sizes, const Sizes &positions,
                          tensor::Device device) {
  Expr same(1);
  std::optional<Argument> varying;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (const auto equal = equal_windows(sizes[i], positions[i], builder.ranges())) {
      same *= equal->length;
      continue;
    }
    const Argument length =
        adaptive_lengths(builder, sizes[i], positions[i], sizes.size() - 1 - i, device);
    varying = varying ? builder.call(kMul, {*varying, length}) : length;
  }
  Argument divisor = size_argument(same);
  if (varying)
    divisor = same.is_integer(1) ? *varying : builder.call(kMul, {*varying, divisor});
  return divisor;
}

void add_pooling(Table &table) {
  for (size_t rank = 1; rank <= 3; ++rank) {
    add_max_pools(table, rank);
    add_avg_pools(table, rank);
  }
}

} // namespace tsc::ops
