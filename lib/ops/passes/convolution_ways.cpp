// The ways of computing a convolution without a library of convolutions. Which one is taken depends
// on shapes alone (convolution_choice.h).
#include "ops/families/convolution.h"
#include "ops/passes/convolution_choice.h"
#include "ops/passes/convolution_products.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// More parts than this are not worth compiling: the sum needs no memory.
constexpr int64_t kMostParts = 32;

/// Parts [from, to) of one dimension.
struct Part {
  int64_t from, to;
};
/// As few as there can be of at most `most`, about equally long.
std::vector<Part> parts_of(int64_t size, int64_t most) {
  const int64_t count = (size + most - 1) / most, each = (size + count - 1) / count;
  std::vector<Part> parts;
  for (int64_t from = 0; from < size; from += each)
    parts.push_back({from, std::min(size, from + each)});
  return parts;
}

/// How a convolution by columns is cut: along the batch, or along the first spatial dimension of
/// the result. One part: not at all. No parts: too many would be needed.
struct Cut {
  size_t dimension = 0; // of the result
  std::vector<Part> parts;
};
Cut cut_columns(const Convolution &c, Expr columns, const Facilities &facilities) {
  const std::optional<int64_t> elements = columns.as_integer();
  int64_t largest = kLargestColumns / static_cast<int64_t>(tensor::size_in_bytes(c.result.dtype));
  if (elements && (reads_windows(c, facilities) || has_group_rows(c, facilities)) &&
      !copies_once(c)) {
    const int64_t results = c.batch().value() * symbolic::numel(c.positions).value() *
                            c.outputs().value(); // of a part, no more than its columns count
    largest = kLargestUnwritten / std::max<int64_t>(1, (results + *elements - 1) / *elements);
  }
  if (!elements || *elements <= largest)
    return {0, {{0, 0}}};
  const int64_t batch = c.batch().value(), one = *elements / batch;
  Cut cut;
  if (one <= largest) {
    cut.parts = parts_of(batch, largest / one);
  } else if (!c.transposed) {
    const int64_t rows = c.positions[0].value(), row = *elements / rows;
    cut.dimension = 2;
    if (row <= largest)
      cut.parts = parts_of(rows, largest / row);
  }
  if (static_cast<int64_t>(cut.parts.size()) > kMostParts)
    cut.parts.clear();
  return cut;
}

/// Weights [O or C, .., kernel..] stored so that neighbouring channels are neighbours, as they are
/// in what they are multiplied with.
Argument weights_by_tap(GraphBuilder &builder, const Shaper &shaper, const Argument &w,
                        size_t rank) {
  const Argument turned = shaper.permute(w, then({1, 0}, 2, rank));
  return shaper.permute(builder.emit("tsc.channels_innermost.default", {turned}),
                        then({1, 0}, 2, rank));
}

Argument sum_of_products(GraphBuilder &builder, const Argument &x, const Argument &weight,
                         const Convolution &c) {
  const Shaper shaper(builder);
  const size_t rank = c.rank();
  const Argument w =
      has_channels_inside(c) ? weights_by_tap(builder, shaper, weight, rank) : weight;
  const Expr batch = c.batch(), groups = c.groups;
  const Expr channels = symbolic::floor_div(c.channels(), groups),
             outputs = symbolic::floor_div(c.outputs(), groups);
  // Both as [N, G, O / G, C / G, positions.., kernel..].
  Argument windows, weights;
  const Sizes kernel = c.window.kernel, ones(rank, Expr(1));
  if (c.transposed) {
    const Sizes spatial(c.input.layout.sizes.begin() + 2, c.input.layout.sizes.end());
    const Argument taps = shaper.expand(shaper.reshape(x, then(c.input.layout.sizes, ones)),
                                        then(c.input.layout.sizes, kernel));
    windows = overlaps_of(builder, taps, c.positions, c.window);
    const Argument apart = shaper.reshape(w, then({groups, channels, outputs}, kernel));
    weights = shaper.permute(apart, then({0, 2, 1}, 3, rank));
  } else {
    windows = windows_of(builder, x, c.positions, c.window, 0);
    weights = shaper.reshape(w, then({groups, outputs, channels}, kernel));
  }
  Argument left =
      shaper.reshape(windows, then(then({batch, groups, Expr(1), channels}, c.positions), kernel));
  Argument right =
      shaper.reshape(weights, then(then({Expr(1), groups, outputs, channels}, ones), kernel));
  // Several outputs of a group are neighbours where channels are: a row of sums a position.
  const bool inside = has_channels_inside(c) && !outputs.is_integer(1);
  int64_t summed = 3; // the dimension of a group's channels
  if (inside) {
    const std::vector<size_t> order = then(then(then({0}, 4, rank), 1, 3), 4 + rank, rank);
    left = shaper.permute(left, order);
    right = shaper.permute(right, order);
    summed += static_cast<int64_t>(rank);
  }
  const Argument products = builder.call(kMul, {widen(builder, left), widen(builder, right)});
  Arguments reduced = {summed};
  for (size_t i = 0; i < rank; ++i)
    reduced.push_back(static_cast<int64_t>(4 + rank + i));
  const Argument sums = builder.call("aten.sum.dim_IntList", {products, reduced, false});
  if (outputs.is_integer(1)) // and may lie as what is summed does
    return builder.call("aten.squeeze.dims", {sums, Arguments{2}});
  if (!inside)
    return shaper.reshape(sums, then({batch, groups * outputs}, c.positions));
  Sizes apart = then({batch}, c.positions);
  apart.push_back(groups * outputs);
  return shaper.permute(shaper.reshape(sums, apart), then({0, rank + 1}, 1, rank));
}

/// `more` zeros behind the dimension before the last `rank`.
Argument filled_up(GraphBuilder &builder, const Argument &x, size_t rank, int64_t more) {
  Arguments pads(2 * rank + 1, int64_t{0});
  pads.push_back(more);
  return builder.call("aten.constant_pad_nd.default", {x, pads, 0});
}
/// Channels that fill_channels adds.
int64_t filled_channels(const Convolution &c, const Facilities &facilities) {
  const bool pays = tensor::is_reduced_float(c.result.dtype) ||
                    (reads_windows(c, facilities) && c.channels_inside);
  return keeps_channels_inside(c) && pays && !copies_once(c)
             ? more_to_runs(c.channels(), word_of(c))
             : 0;
}
/// Channels filled up with zeros to whole runs, as the first layer's three colours need: its
/// columns are then runs of memory, and its product is one that matrix units take. The input is
/// stored like that once.
void fill_channels(GraphBuilder &builder, Argument &input, Argument &weight, Convolution &c) {
  const int64_t more = filled_channels(c, builder.facilities());
  if (more == 0)
    return;
  const Argument filled = filled_up(builder, input, c.rank(), more);
  input = builder.emit("tsc.channels_innermost.default", {filled});
  weight = filled_up(builder, weight, c.rank(), more);
  c.input = builder.meta(input);
  c.weight = builder.meta(weight);
}

/// The convolution with what windows hold of a line as its channels (packed_line); `positions`: of
/// the result, or of the rows of it that are wanted.
Argument packed_product(GraphBuilder &builder, const Argument &x, const Argument &w,
                        const Convolution &c, const PackedLine &packed, const Sizes &positions) {
  const Shaper shaper(builder);
  const size_t rank = c.rank(), line = rank - 1;
  const int64_t stride = c.window.stride[line].value(), kernel = c.window.kernel[line].value(),
                before = c.window.padding[line].value(),
                length = c.input.layout.sizes[2 + line].value(),
                more = packed.unit - c.channels().value(), outputs = packed.outputs,
                windows_of_line = (positions[line].value() + outputs - 1) / outputs,
                step = stride * outputs, run = packed.taps * packed.unit,
                reached = (windows_of_line - 1) * step + packed.taps;
  // [N, sizes.., line * unit], zeros around the line; of that [N, run, sizes.., windows].
  Arguments pads(2 * rank + 1, int64_t{0});
  pads[0] = before;
  pads[1] = reached - before - length;
  pads.push_back(more);
  const Argument filled =
      builder.emit("tsc.channels_innermost.default",
                   {builder.call("aten.constant_pad_nd.default", {x, pads, 0})});
  std::vector<size_t> inner = then({0}, 2, rank);
  inner.push_back(1);
  Sizes lines(c.input.layout.sizes.begin() + 2, c.input.layout.sizes.end() - 1);
  lines.insert(lines.begin(), c.batch());
  lines.push_back(Expr(reached * packed.unit));
  const Argument rows = shaper.reshape_in_place(shaper.permute(filled, inner), lines);
  const Argument runs = builder.call("aten.unfold.default",
                                     {rows, static_cast<int64_t>(rank), run, step * packed.unit});
  const Argument input = shaper.permute(runs, then({0, rank + 1}, 1, rank));
  // [outputs * O, run, kernel.., 1]: each output of a window has its taps a stride further on.
  Arguments weights;
  for (int64_t k = 0; k < outputs; ++k) {
    Arguments around(2 * rank + 1, int64_t{0});
    around[0] = k * stride;
    around[1] = packed.taps - kernel - k * stride;
    around.push_back(more);
    weights.push_back(builder.call("aten.constant_pad_nd.default", {w, around, 0}));
  }
  const Argument all = outputs == 1 ? weights[0] : builder.call("aten.cat.default", {weights, 0});
  Sizes taps = {c.outputs() * Expr(outputs), Expr(run)};
  taps.insert(taps.end(), c.window.kernel.begin(), c.window.kernel.end() - 1);
  taps.push_back(Expr(1));
  const Argument weight =
      shaper.reshape(shaper.permute(all, then({0, rank + 1, 1}, 2, line)), taps);

  Convolution whole = c;
  Sizes places = positions;
  places[line] = windows_of_line;
  whole.input = builder.meta(input);
  whole.weight = builder.meta(weight);
  whole.window.kernel[line] = whole.window.stride[line] = 1;
  whole.window.padding[line] = 0;
  whole.result.layout = tensor::contiguous_layout(then({c.batch(), taps[0]}, places));
  const Argument windows = windows_of(builder, input, places, whole.window, 0);
  const Argument product = product_of_rows(builder, windows, weight, whole, places);
  if (outputs == 1)
    return product;
  // [N, outputs * O, .., windows] as [N, O, .., positions], where it lies.
  Sizes apart = then({c.batch()}, places);
  apart.back() = Expr(windows_of_line * outputs);
  apart.push_back(c.outputs());
  const Argument beside = shaper.permute(
      shaper.reshape_in_place(shaper.permute(product, inner), apart), then({0, rank + 1}, 1, rank));
  return windows_of_line * outputs == positions[line].value()
             ? beside
             : builder.call("aten.slice.Tensor",
                            {beside, static_cast<int64_t>(2 + line), 0, positions[line].value()});
}

/// One part of the convolution by columns: samples, or rows of the result.
Argument part_by_columns(GraphBuilder &builder, const Argument &x, const Argument &w, Convolution c,
                         size_t dimension, Part part) {
  const Shaper shaper(builder);
  Argument input = x;
  Sizes positions = c.positions;
  if (dimension == 0 && part.to != 0) {
    input = builder.call("aten.slice.Tensor", {x, 0, part.from, part.to});
    c.input = builder.meta(input);
  } else if (part.to != 0) { // the windows of later rows start further down
    positions[0] = part.to - part.from;
    c.window.padding[0] = c.window.padding[0] - Expr(part.from) * c.window.stride[0];
  }
  if (const auto packed = packed_line(c, builder.facilities()))
    return packed_product(builder, input, w, c, *packed, positions);
  Argument weight = w;
  fill_channels(builder, input, weight, c);
  const Sizes &sizes = c.input.layout.sizes;
  if (has_one_tap(c) && std::equal(positions.begin(), positions.end(), sizes.begin() + 2)) {
    if (has_group_rows(c, builder.facilities()))
      return product_of_group_views(shaper, input, weight, c);
    if (keeps_channels_inside(c) && reads_windows(c, builder.facilities()))
      return product_of_views(shaper, input, weight, c, true); // nothing is copied
  }
  const Argument windows = windows_of(builder, input, positions, c.window, 0);
  if (keeps_channels_inside(c))
    return product_of_rows(builder, windows, weight, c, positions);
  return has_group_rows(c, builder.facilities())
             ? product_of_group_rows(shaper, windows, weight, c, positions)
             : product_of_columns(shaper, windows, weight, c, positions);
}

/// Transposed, one group, channels innermost: [N * positions, C] @ [C, taps * O], as [N, O,
/// sizes.., kernel..].
Argument taps_of_rows(const Shaper &shaper, const Argument &x, const Argument &w,
                      const Convolution &c) {
  const size_t rank = c.rank();
  const Sizes spatial(c.input.layout.sizes.begin() + 2, c.input.layout.sizes.end());
  std::vector<size_t> inner = then({0}, 2, rank), by_tap = then({0}, 2, rank);
  inner.push_back(1);
  by_tap.push_back(1);
  const Argument rows = shaper.reshape_in_place(
      shaper.permute(x, inner), {c.batch() * symbolic::numel(spatial), c.channels()});
  const Argument matrix =
      shaper.reshape(shaper.permute(w, by_tap), {c.channels(), c.window.taps() * c.outputs()});
  Sizes apart = then(then({c.batch()}, spatial), c.window.kernel);
  apart.push_back(c.outputs());
  return shaper.permute(shaper.reshape(shaper.product(rows, matrix), apart),
                        then({0, 2 * rank + 1}, 1, 2 * rank));
}

/// Transposed: the product of the input with every tap, [N, O * taps, sizes..], then each output
/// gathers the taps that reach it.
Argument part_of_transposed(GraphBuilder &builder, const Argument &x, const Argument &w,
                            Convolution c, Part part) {
  const Shaper shaper(builder);
  Argument input = x;
  if (part.to != 0) {
    input = builder.call("aten.slice.Tensor", {x, 0, part.from, part.to});
    c.input = builder.meta(input);
  }
  const size_t rank = c.rank();
  const Sizes spatial(c.input.layout.sizes.begin() + 2, c.input.layout.sizes.end());
  const Expr batch = c.batch(), groups = c.groups, count = symbolic::numel(spatial);
  const Expr channels = symbolic::floor_div(c.channels(), groups),
             outputs = symbolic::floor_div(c.outputs(), groups);
  const Expr rows = outputs * c.window.taps();
  const auto gathered = [&](const Argument &taps_last) {
    const Argument overlaps = overlaps_of(builder, taps_last, c.positions, c.window);
    return builder.call("aten.sum.dim_IntList",
                        {widen(builder, overlaps), dimensions_from(2 + rank, rank), false});
  };
  const bool few = gathers_taps(c);
  if (keeps_channels_inside(c) && !(few && !is_channels_last(c.input.layout)))
    return gathered(taps_of_rows(shaper, input, w, c));
  Argument columns; // [N, G, O / G, kernel.., sizes..]
  if (groups.is_integer(1)) {
    const Argument matrix = shaper.permute(shaper.reshape(w, {channels, rows}), {1, 0});
    const Argument left =
        shaper.expand(shaper.reshape(matrix, {Expr(1), rows, channels}), {batch, rows, channels});
    const Argument right = shaper.reshape(input, {batch, channels, count});
    const Argument product =
        few && tensor::is_reduced_float(c.result.dtype) // each output adds several of them up
            ? builder.call("aten.bmm.dtype", {left, right, tensor::DType::f32})
            : shaper.batched_product(left, right);
    columns =
        shaper.reshape(product, then(then({batch, groups * outputs}, c.window.kernel), spatial));
  } else {
    const Argument matrix = shaper.permute(shaper.reshape(w, {groups, channels, rows}), {0, 2, 1});
    const Argument apart = shaper.reshape(input, {batch, groups, channels, count});
    const Argument right =
        shaper.reshape(shaper.permute(apart, {1, 2, 0, 3}), {groups, channels, batch * count});
    const Argument product =
        shaper.reshape(shaper.batched_product(matrix, right),
                       then(then({groups, outputs}, then(c.window.kernel, {batch})), spatial));
    columns = shaper.reshape(
        shaper.permute(product, then(then({2 + rank, 0, 1}, 2, rank), 3 + rank, rank)),
        then(then({batch, groups * outputs}, c.window.kernel), spatial));
  }
  return gathered(shaper.permute(columns, then(then({0, 1}, 2 + rank, rank), 2, rank)));
}

/// A transposed convolution of one tap at every position is a plain one of the turned weight.
bool is_plain(const Convolution &c) {
  const Sizes spatial(c.input.layout.sizes.begin() + 2, c.input.layout.sizes.end());
  return c.transposed && c.groups.is_integer(1) && all_are(c.window.kernel, 1) &&
         all_are(c.window.stride, 1) && all_are(c.window.padding, 0) && c.positions == spatial;
}

/// The weights [C, O / G, kernel..] of a transposed convolution as [O, C / G, kernel..], taps in
/// reversed order.
Argument turned_weights(GraphBuilder &builder, const Argument &w, const Convolution &c) {
  const Shaper shaper(builder);
  const size_t rank = c.rank();
  const Expr channels = symbolic::floor_div(c.channels(), c.groups),
             outputs = symbolic::floor_div(c.outputs(), c.groups);
  Arguments taps;
  for (size_t i = 0; i < rank; ++i)
    taps.push_back(static_cast<int64_t>(2 + i));
  const Argument reversed = builder.call("aten.flip.default", {w, taps});
  const Argument apart =
      shaper.reshape(reversed, then({c.groups, channels, outputs}, c.window.kernel));
  return shaper.reshape(shaper.permute(apart, then({0, 2, 1}, 3, rank)),
                        then({c.outputs(), channels}, c.window.kernel));
}

Argument by_columns(GraphBuilder &builder, const Argument &x, const Argument &w,
                    const Convolution &c) {
  const Sizes spatial(c.input.layout.sizes.begin() + 2, c.input.layout.sizes.end());
  const Expr elements =
      c.transposed ? c.batch() * c.outputs() * c.window.taps() * symbolic::numel(spatial)
                   : c.batch() * (c.channels() + Expr(filled_channels(c, builder.facilities()))) *
                         c.window.taps() * symbolic::numel(c.positions);
  const bool empty = symbolic::numel(c.input.layout.sizes).is_integer(0);
  const Cut cut = empty ? Cut{0, {{0, 0}}} : cut_columns(c, elements, builder.facilities());
  if (cut.parts.empty())
    return sum_of_products(builder, x, w, c);
  Argument input = x;
  // What fills channels up puts them there, too. Columns of groups are copied by whole runs then.
  if (has_group_rows(c, builder.facilities()) ||
      (!c.window.taps().is_integer(1) &&
       (reads_windows(c, builder.facilities()) && !copies_once(c) &&
        more_to_runs(c.channels(), word_of(c)) == 0)))
    input = builder.emit("tsc.channels_inside.default", {x});
  Arguments parts;
  for (const Part &part : cut.parts)
    parts.push_back(c.transposed ? part_of_transposed(builder, input, w, c, part)
                                 : part_by_columns(builder, input, w, c, cut.dimension, part));
  if (parts.size() == 1)
    return parts[0];
  return builder.call("aten.cat.default", {parts, static_cast<int64_t>(cut.dimension)});
}

/// The channels of one group of a transposed convolution filled up with zeros to whole runs, those
/// that go in and those that come out; channels of what goes in lie innermost.
void fill_transposed(GraphBuilder &builder, Argument &input, Argument &w, Argument &bias,
                     Convolution &c) {
  const size_t rank = c.rank();
  if (const int64_t more = more_to_runs(c.channels(), word_of(c)); more != 0) {
    const Argument filled = filled_up(builder, input, rank, more);
    input = builder.emit("tsc.channels_innermost.default", {filled});
    w = filled_up(builder, w, rank + 1, more);
  } else {
    input = builder.emit("tsc.channels_inside.default", {input});
  }
  if (const int64_t more = more_to_runs(c.outputs(), kResults); more != 0) {
    w = filled_up(builder, w, rank, more);
    if (!bias.is_none())
      bias = filled_up(builder, bias, rank, more);
    c.result.layout.sizes[1] = c.outputs() + Expr(more);
  }
  c.input = builder.meta(input);
  c.weight = builder.meta(w);
}

/// An ordinary convolution, and its weight.
struct PhaseConvolution {
  Convolution convolution;
  Argument weight;
  bool is_reached = true; // by a tap; else all results are 0
};
/// The outputs `number` of a transposed convolution that are strides apart (phase_of), the last
/// dimension's counted first.
PhaseConvolution phase_convolution(GraphBuilder &builder, const Argument &w, const Convolution &c,
                                   int64_t number) {
  PhaseConvolution result = {c, w};
  Convolution &part = result.convolution;
  part.transposed = false;
  part.channels_inside = true;
  for (size_t i = c.rank(); i-- > 0;) {
    const int64_t stride = c.window.stride[i].value();
    const Phase phase = phase_of(c, i, number % stride);
    number /= stride;
    result.is_reached &= phase.taps > 0;
    result.weight =
        builder.call("aten.slice.Tensor", {result.weight, static_cast<int64_t>(i + 2), phase.tap,
                                           c.window.kernel[i].value(), phase.step});
    part.window.kernel[i] = phase.taps;
    part.window.stride[i] = 1;
    part.window.dilation[i] = phase.dilation;
    part.window.padding[i] = phase.padding;
    part.positions[i] = phase.size;
  }
  part.result.layout = tensor::contiguous_layout(then({c.batch(), c.outputs()}, part.positions));
  if (result.is_reached)
    result.weight = turned_weights(builder, result.weight, part);
  return result;
}

/// Results of one phase. `bias` [outputs, 1..] or None.
Argument phase(GraphBuilder &builder, const Argument &x, const Argument &w, const Convolution &c,
               const Argument &bias, int64_t number) {
  auto [part, weight, is_reached] = phase_convolution(builder, w, c, number);
  Argument result;
  if (is_reached) {
    if (c.groups.is_integer(1)) // rows of terms, also of one tap
      weight = builder.emit("tsc.channels_innermost.default", {weight});
    part.weight = builder.meta(weight);
    const bool is_sum =
        !c.groups.is_integer(1) && choose_way(part, builder.facilities()) == Way::sum;
    result =
        is_sum ? sum_of_products(builder, x, weight, part) : by_columns(builder, x, weight, part);
    result = convert(builder, result, c.result.dtype);
  } else {
    result = builder.call("aten.full.default", {sizes_argument(part.result.layout.sizes), 0.0},
                          {{"dtype", c.result.dtype}});
  }
  return bias.is_none() ? result : builder.call(kAdd, {result, bias});
}

/// The same where all phases slide over the same windows (are_alike): one convolution, whose
/// outputs are those of one place after the other, channels innermost.
Argument phases_at_once(GraphBuilder &builder, const Argument &x, const Argument &w,
                        const Convolution &c, const Argument &bias) {
  const Shaper shaper(builder);
  const size_t rank = c.rank();
  const int64_t places = symbolic::numel(c.window.stride).value();
  Arguments weights;
  const Convolution first = phase_convolution(builder, w, c, 0).convolution;
  for (int64_t number = 0; number < places; ++number)
    weights.push_back(phase_convolution(builder, w, c, number).weight);
  Convolution whole = first;
  whole.result.layout.sizes[1] = c.outputs() * Expr(places);
  whole.result.layout = tensor::contiguous_layout(whole.result.layout.sizes);
  const Argument weight = builder.emit("tsc.channels_innermost.default",
                                       {builder.call("aten.cat.default", {weights, 0})});
  whole.weight = builder.meta(weight);
  Argument result = convert(builder, by_columns(builder, x, weight, whole), c.result.dtype);
  // [N, places * O, q..] as [N, q.., strides.., O], and each dimension's places behind its q.
  std::vector<size_t> inner = then({0}, 2, rank), between = {0}, outer = {0, rank + 1};
  inner.push_back(1);
  Sizes apart = then({c.batch()}, first.positions), joined = {c.batch()};
  apart = then(apart, c.window.stride);
  apart.push_back(c.outputs());
  for (size_t i = 0; i < rank; ++i) {
    between.push_back(1 + i);
    between.push_back(1 + rank + i);
    joined.push_back(c.positions[i]);
  }
  between.push_back(1 + 2 * rank);
  joined.push_back(c.outputs());
  result = shaper.permute(shaper.reshape(shaper.permute(result, inner), apart), between);
  result = shaper.permute(shaper.reshape(result, joined), then(outer, 1, rank));
  return bias.is_none() ? result : builder.call(kAdd, {result, bias});
}

/// Transposed, as ordinary convolutions whose results are interleaved (goes_by_phases).
Argument by_phases(GraphBuilder &builder, const Argument &x, const Argument &w, Convolution c,
                   Argument bias) {
  Argument input = x, weight = w;
  const Expr outputs = c.outputs();
  if (c.groups.is_integer(1))
    fill_transposed(builder, input, weight, bias, c);
  int64_t places = 1, most = 0; // of the products' operands, elements a sample
  for (size_t i = 0; i < c.rank(); ++i) {
    int64_t taps = 0;
    for (int64_t first = 0; first < c.window.stride[i].value(); ++first)
      taps = std::max(taps, phase_of(c, i, first).taps);
    most = std::max<int64_t>(most, 1) * taps * phase_of(c, i, 0).size;
    places *= c.window.stride[i].value();
  }
  most *= std::max(c.channels().value(), c.outputs().value());
  if (are_alike(c)) {
    Argument result = phases_at_once(builder, input, weight, c, bias);
    if (!(outputs == c.outputs()))
      result = builder.call("aten.slice.Tensor", {result, 1, 0, outputs.value()});
    return result;
  }
  Arguments parts;
  const std::vector<Part> all = {{0, 0}};
  const auto batch = c.batch().as_integer();
  for (const Part &samples :
       batch ? parts_of(*batch, std::max<int64_t>(1, kLargestUnwritten / most)) : all) {
    Convolution some = c;
    const Argument given =
        !batch || samples.to - samples.from == *batch
            ? input
            : builder.call("aten.slice.Tensor", {input, 0, samples.from, samples.to});
    some.input = builder.meta(given);
    for (int64_t number = 0; number < places; ++number)
      parts.push_back(phase(builder, given, weight, some, bias, number));
  }
  Argument result =
      parts.size() == 1 ? parts[0] : interleaved(builder, parts, c.positions, c.window.stride);
  if (!(outputs == c.outputs()))
    result = builder.call("aten.slice.Tensor", {result, 1, 0, outputs.value()});
  return result;
}

} // namespace

Argument compute_convolution(GraphBuilder &builder, const Call &call, Channels channels) {
  Convolution c = convolution_of(call);
  c.channels_inside = channels == Channels::inside;
  c.channels_outside = channels == Channels::outside;
  const Argument x = call["input"];
  Argument w = call["weight"];
  if (is_plain(c)) {
    w = Shaper(builder).permute(w, then({1, 0}, 2, c.rank()));
    c.weight = builder.meta(w);
    c.transposed = false;
  } else if (slides(c)) {
    w = turned_weights(builder, w, c);
    c = as_plain(c);
    c.weight = builder.meta(w);
  }
  const auto bias_for = [&](tensor::DType dtype) {
    if (!call.has("bias"))
      return Argument();
    Sizes sizes(c.rank() + 1, Expr(1));
    sizes[0] = c.outputs();
    return Shaper(builder).reshape(convert(builder, call["bias"], dtype), sizes);
  };
  const Way way = choose_way(of_likely_batch(c, call.graph()), builder.facilities());
  Argument result;
  switch (way) {
  case Way::product:
    result = product_of_views(Shaper(builder), x, w, c, keeps_channels_inside(c));
    break;
  case Way::columns:
    if (goes_by_phases(c, builder.facilities()))
      return in_layout(builder, by_phases(builder, x, w, c, bias_for(c.result.dtype)),
                       c.result.layout);
    result = by_columns(builder, x, w, c);
    break;
  case Way::sum:
    result = sum_of_products(builder, x, w, c);
    break;
  }
  if (const Argument bias = bias_for(builder.meta(result).dtype); !bias.is_none())
    result = builder.call(kAdd, {result, bias});
  result = convert(builder, result, c.result.dtype);
  // A sum is stored once, and as the result, not as what its wider terms add up to.
  if (way == Way::sum && (has_channels_inside(c) || (builder.facilities().product_kernels &&
                                                     tensor::is_reduced_float(c.result.dtype))))
    result = builder.emit("tsc.stored.default", {result});
  return in_layout(builder, result, c.result.layout);
}

} // namespace tsc::ops
