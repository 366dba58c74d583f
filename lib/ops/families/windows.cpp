// Sliding windows, and the operators that are nothing else: im2col and col2im.
#include "ops/families/windows.h"

#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <numeric>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// `sizes` with its last `dropped` dimensions replaced.
Sizes with_last(Sizes sizes, size_t dropped, const Sizes &first, const Sizes &second) {
  sizes.resize(sizes.size() - dropped);
  sizes.insert(sizes.end(), first.begin(), first.end());
  sizes.insert(sizes.end(), second.begin(), second.end());
  return sizes;
}

/// One number a spatial dimension in each of these lists, `lists` groups of them at the end of
/// self.
void check_lists(const Call &call, size_t groups, std::initializer_list<std::string_view> lists) {
  const size_t rank = call.sizes("size").size();
  bool good = groups * rank <= call.tensor("self").layout.rank();
  for (const std::string_view name : lists)
    good = good && call.sizes(name).size() == rank;
  if (!good)
    call.fail("TSC-O048", call.node().target + ": its lists are of different lengths",
              "pass one number a spatial dimension");
}

Value windows_value(const Call &call) {
  check_lists(call, 1, {"kernel", "stride", "padding", "dilation"});
  const TensorMeta &self = call.tensor("self");
  const Sizes size = call.sizes("size");
  return contiguous_value(self.dtype,
                          with_last(self.layout.sizes, size.size(), size, call.sizes("kernel")),
                          self.device);
}

Value overlaps_value(const Call &call) {
  check_lists(call, 2, {"kernel", "stride", "padding", "dilation"});
  const TensorMeta &self = call.tensor("self");
  const Sizes size = call.sizes("size");
  return contiguous_value(self.dtype,
                          with_last(self.layout.sizes, 2 * size.size(), size, call.sizes("kernel")),
                          self.device);
}

Value interleave_value(const Call &call) {
  const Sizes size = call.sizes("size");
  const std::vector<TensorMeta> parts = call.tensors("parts");
  const std::vector<int64_t> strides = call.integers("stride");
  const auto places = static_cast<size_t>(
      std::accumulate(strides.begin(), strides.end(), int64_t{1}, std::multiplies<>()));
  if (parts.empty() || parts.size() % places != 0 || strides.size() != size.size() ||
      parts[0].layout.rank() != size.size() + 2)
    call.fail("TSC-O048", call.node().target + ": its parts are not one a place",
              "pass as many parts as the product of the strides");
  Sizes whole = with_last(parts[0].layout.sizes, size.size(), size, {});
  for (size_t k = places; k < parts.size(); k += places)
    whole[0] = whole[0] + parts[k].layout.sizes[0];
  return tensor_value(parts[0].dtype, whole, channels_last_strides(whole), parts[0].device);
}

Value covering_windows_value(const Call &call) {
  check_lists(call, 2, {"kernel", "stride", "padding", "dilation"});
  const TensorMeta &self = call.tensor("self");
  const Sizes size = call.sizes("size"), kernel = call.sizes("kernel"),
              stride = call.sizes("stride"), dilation = call.sizes("dilation");
  Sizes most;
  for (size_t i = 0; i < size.size(); ++i)
    most.emplace_back(covering_of(kernel[i].value(), stride[i].value(), dilation[i].value()).most);
  return contiguous_value(self.dtype, with_last(self.layout.sizes, 2 * size.size(), size, most),
                          self.device);
}

/// The longest of the windows that cut `size` elements into `count` parts. Of no parts at all it is
/// any number.
Expr longest_window(Expr size, Expr count, const symbolic::Ranges &ranges) {
  const std::optional<int64_t> n = size.as_integer(), parts = count.as_integer();
  if (!n || !parts || *parts == 0) {
    const Expr divisor = at_least_one(count, ranges);
    const Expr rest = symbolic::simplify(symbolic::mod(size, divisor), ranges);
    const Expr longest = rest.is_integer(0) ? symbolic::floor_div(size, divisor)
                                            : symbolic::ceil_div(size, divisor) + Expr(1);
    return symbolic::simplify(longest, ranges);
  }
  const int64_t whole = *n / *parts, rest = *n % *parts;
  // Window i reaches from floor(i n / p) to ceil((i + 1) n / p). With f = i rest mod p it holds
  // whole + ceil((f + rest) / p) elements, and f takes every multiple of gcd(rest, p) below p.
  if (rest == 0)
    return whole;
  return rest > std::gcd(rest, *parts) ? whole + 2 : whole + 1;
}

Value adaptive_windows_value(const Call &call) {
  check_lists(call, 1, {});
  const TensorMeta &self = call.tensor("self");
  const Sizes size = call.sizes("size");
  const size_t lead = self.layout.rank() - size.size();
  Sizes longest;
  for (size_t i = 0; i < size.size(); ++i)
    longest.push_back(longest_window(self.layout.sizes[lead + i], size[i], call.ranges()));
  return contiguous_value(self.dtype, with_last(self.layout.sizes, size.size(), size, longest),
                          self.device);
}

Window window_argument(const Call &call) {
  return {spread(call, "kernel_size", 2, Expr(1)), spread(call, "stride", 2, Expr(1)),
          spread(call, "padding", 2, Expr(0)), spread(call, "dilation", 2, Expr(1))};
}

/// How often a window fits.
Sizes positions_of(const Call &call, const Sizes &sizes, const Window &window) {
  Sizes positions;
  for (size_t i = 0; i < window.rank(); ++i) {
    const Expr span = sizes[i] + Expr(2) * window.padding[i] -
                      window.dilation[i] * (window.kernel[i] - Expr(1)) - Expr(1);
    const Expr count = symbolic::floor_div(span, window.stride[i]) + Expr(1);
    positions.push_back(symbolic::simplify(count, call.ranges()));
  }
  return positions;
}

/// [N, C, H, W] or [C, H, W] to [N, C * taps, positions].
Argument im2col(GraphBuilder &builder, const Call &call) {
  Argument x = call["self"];
  const size_t rank = call.tensor("self").layout.rank();
  if (rank != 3 && rank != 4)
    call.fail("TSC-O048",
              call.node().target + " of " + print_sizes(call.tensor("self").layout.sizes),
              "pass [N, C, H, W] or [C, H, W]");
  if (rank == 3)
    x = builder.call("aten.unsqueeze.default", {x, 0});
  const Sizes sizes = builder.meta(x).layout.sizes;
  const Window window = window_argument(call);
  const Sizes positions = positions_of(call, {sizes[2], sizes[3]}, window);
  Argument windows = windows_of(builder, x, positions, window, 0);
  windows = builder.call("aten.permute.default", {windows, Arguments{0, 1, 4, 5, 2, 3}});
  const Sizes merged = {sizes[0], sizes[1] * window.taps(), symbolic::numel(positions)};
  Argument columns = builder.call("aten.reshape.default", {windows, sizes_argument(merged)});
  return rank == 3 ? builder.call("aten.squeeze.dims", {columns, Arguments{0}}) : columns;
}

/// [N, C * taps, positions] or [C * taps, positions] to [N, C, H, W].
Argument col2im(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank();
  const Window window = window_argument(call);
  const Sizes output = spread(call, "output_size", 2, Expr(1));
  const Sizes positions = positions_of(call, output, window);
  const Expr taps = window.taps();
  if (rank != 2 && rank != 3)
    call.fail("TSC-O048", call.node().target + " of " + print_sizes(self.layout.sizes),
              "pass [N, C * taps, positions] or [C * taps, positions]");
  const Expr rows = self.layout.sizes[rank - 2], columns = self.layout.sizes[rank - 1];
  const Expr left = symbolic::mod(rows, taps);
  if ((left.is_integer() && !left.is_integer(0)) ||
      (columns.is_integer() && symbolic::numel(positions).is_integer() &&
       columns != symbolic::numel(positions)))
    call.fail("TSC-O048",
              call.node().target + " of " + print_sizes(self.layout.sizes) + " with windows of " +
                  print_sizes(window.kernel) + " at " + print_sizes(positions) + " positions",
              "pass [N, C * taps, positions]");
  const Expr batch = rank == 3 ? self.layout.sizes[0] : Expr(1);
  const Expr channels = symbolic::simplify(symbolic::floor_div(rows, taps), call.ranges());
  const Sizes apart = {batch,        channels,    window.kernel[0], window.kernel[1],
                       positions[0], positions[1]};
  Argument x = builder.call("aten.reshape.default", {call["self"], sizes_argument(apart)});
  x = builder.call("aten.permute.default", {x, Arguments{0, 1, 4, 5, 2, 3}});
  x = widen(builder, covering_windows_of(builder, x, output, window));
  x = builder.call("aten.sum.dim_IntList", {x, Arguments{4, 5}, false});
  x = convert(builder, x, self.dtype);
  return rank == 2 ? builder.call("aten.squeeze.dims", {x, Arguments{0}}) : x;
}

} // namespace

std::vector<Expr> spread(const Call &call, std::string_view name, size_t count, Expr fallback) {
  const std::vector<Parameter> &parameters = call.schema().parameters;
  const bool has = std::any_of(parameters.begin(), parameters.end(),
                               [&](const Parameter &parameter) { return parameter.name == name; });
  const Sizes values = has ? call.sizes(name) : Sizes{};
  if (values.empty())
    return Sizes(count, fallback);
  if (values.size() == 1)
    return Sizes(count, values[0]);
  if (values.size() != count)
    call.fail("TSC-O048",
              call.node().target + ": argument '" + std::string(name) + "' is " +
                  print_sizes(values) + " for " + std::to_string(count) + " spatial dimensions",
              "pass one number, or one a dimension");
  return values;
}

Argument windows_of(GraphBuilder &builder, const Argument &x, const Sizes &positions,
                    const Window &window, const Argument &fill) {
  return builder.call("tsc.windows.default",
                      {x, sizes_argument(positions), sizes_argument(window.kernel),
                       sizes_argument(window.stride), sizes_argument(window.padding),
                       sizes_argument(window.dilation), fill});
}

Argument overlaps_of(GraphBuilder &builder, const Argument &x, const Sizes &sizes,
                     const Window &window) {
  return builder.call("tsc.overlaps.default",
                      {x, sizes_argument(sizes), sizes_argument(window.kernel),
                       sizes_argument(window.stride), sizes_argument(window.padding),
                       sizes_argument(window.dilation)});
}

Argument interleaved(GraphBuilder &builder, const std::vector<Argument> &parts, const Sizes &sizes,
                     const Sizes &strides) {
  return builder.call("tsc.interleave.default",
                      {parts, sizes_argument(sizes), sizes_argument(strides)});
}

Argument covering_windows_of(GraphBuilder &builder, const Argument &x, const Sizes &sizes,
                             const Window &window) {
  const auto is_known = [](const Sizes &list) {
    return std::all_of(list.begin(), list.end(),
                       [](Expr e) { return e.is_integer() && e.value() > 0; });
  };
  if (!is_known(window.kernel) || !is_known(window.stride) || !is_known(window.dilation))
    return overlaps_of(builder, x, sizes, window);
  return builder.call("tsc.covering_windows.default",
                      {x, sizes_argument(sizes), sizes_argument(window.kernel),
                       sizes_argument(window.stride), sizes_argument(window.padding),
                       sizes_argument(window.dilation)});
}

Covering covering_of(int64_t kernel, int64_t stride, int64_t dilation) {
  Covering result;
  result.divisor = std::gcd(stride, dilation);
  result.taps_apart = stride / result.divisor;
  const int64_t step = dilation / result.divisor % result.taps_apart;
  while (result.inverse * step % result.taps_apart != 1 % result.taps_apart)
    ++result.inverse;
  result.most = (kernel + result.taps_apart - 1) / result.taps_apart;
  return result;
}

Argument adaptive_windows_of(GraphBuilder &builder, const Argument &x, const Sizes &positions,
                             const Argument &fill) {
  return builder.call("tsc.adaptive_windows.default", {x, sizes_argument(positions), fill});
}

std::optional<EqualWindows> equal_windows(Expr size, Expr count, const symbolic::Ranges &ranges) {
  const Expr parts = at_least_one(count, ranges);
  const Expr rest = symbolic::simplify(symbolic::mod(size, parts), ranges);
  const Expr whole = symbolic::simplify(symbolic::floor_div(size, parts), ranges);
  if (rest.is_integer(0))
    return EqualWindows{whole, whole};
  if (rest.is_integer(1) && parts.is_integer())
    return EqualWindows{whole, whole + Expr(1)};
  return std::nullopt;
}

Expr at_least_one(Expr count, const symbolic::Ranges &ranges) {
  return symbolic::known_less_equal(Expr(1), count, ranges) ? count
                                                            : symbolic::maximum(Expr(1), count);
}

Argument dimensions_from(size_t first, size_t count) {
  Arguments dimensions;
  for (size_t i = 0; i < count; ++i)
    dimensions.push_back(static_cast<int64_t>(first + i));
  return dimensions;
}

void add_windows(Table &table) {
  table
      .add("tsc::windows(Tensor self, SymInt[] size, SymInt[] kernel, SymInt[] stride, SymInt[] "
           "padding, SymInt[] dilation, Scalar fill) -> Tensor")
      .shape(windows_value)
      .lowers("windows");
  table
      .add("tsc::overlaps(Tensor self, SymInt[] size, SymInt[] kernel, SymInt[] stride, SymInt[] "
           "padding, SymInt[] dilation) -> Tensor")
      .shape(overlaps_value)
      .lowers("overlaps");
  table
      .add("tsc::covering_windows(Tensor self, SymInt[] size, SymInt[] kernel, SymInt[] stride, "
           "SymInt[] padding, SymInt[] dilation) -> Tensor")
      .shape(covering_windows_value)
      .lowers("covering_windows");
  const auto with_channels_inside = [](const Call &call) {
    const TensorMeta &self = call.tensor("self");
    return tensor_value(self.dtype, self.layout.sizes, channels_last_strides(self.layout.sizes),
                        self.device);
  };
  // The same values, stored with the second dimension innermost.
  table.add("tsc::channels_innermost(Tensor self) -> Tensor")
      .shape(with_channels_inside)
      .lowers("channels_innermost");
  // The same, copied only where they lie otherwise: what slides over them wants runs of channels.
  table.add("tsc::channels_inside(Tensor self) -> Tensor")
      .shape(with_channels_inside)
      .lowers("channels_inside");
  // The same values, stored: as what they are computed from lies.
  table.add("tsc::stored(Tensor self) -> Tensor")
      .shape([](const Call &call) {
        const TensorMeta &self = call.tensor("self");
        return contiguous_value(self.dtype, self.layout.sizes, self.device);
      })
      .lowers("stored");
  table.add("tsc::interleave(Tensor[] parts, SymInt[] size, int[] stride) -> Tensor")
      .shape(interleave_value)
      .lowers("interleave");
  table.add("tsc::adaptive_windows(Tensor self, SymInt[] size, Scalar fill) -> Tensor")
      .shape(adaptive_windows_value)
      .lowers("adaptive_windows");
  table
      .add("im2col(Tensor self, int[2] kernel_size, int[2] dilation, int[2] padding, int[2] "
           "stride) -> Tensor")
      .decompose(im2col);
  table
      .add("col2im(Tensor self, SymInt[2] output_size, int[2] kernel_size, int[2] dilation, int[2] "
           "padding, int[2] stride) -> Tensor")
      .decompose(col2im);
}

} // namespace tsc::ops
