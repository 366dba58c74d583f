// Sorting along a dimension. Rows that a block holds are sorted by one operation (ir::Sort), longer
// ones and those of unknown length by the digits of their elements (ir::Library::sort), or, where
// there is too little for that many kernels, in chunks, which are then merged. Where only the first
// elements are wanted, those of the groups that can hold them are sorted. 8-bit floats are in
// chunks or, rows of unknown length, counted: an element's place is the number of elements that
// come before it. Where elements are only compared they become integer keys that order as PyTorch
// orders (NaN above everything, -0.0 with 0.0). Equal elements stay in their order.
#include "ops/families/ordering.h"

#include "ops/families/likely_size.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// Rows up to this length are sorted as a whole.
constexpr int64_t kLongestWhole = kLongestSortedByBlock;
/// Elements of all rows, for each byte of one, below which merging is faster: a pass by digits is
/// three launches (scheduler/cost.h estimates both).
constexpr int64_t kMergedForEachByte = 1 << 14;
/// Sorted chunks of longer ones that are merged at once, a power of two: each element is searched
/// for in all but one of them, and moved once.
constexpr int64_t kMergedAtOnce = 8;

/// So many first elements of a row are found without sorting it.
constexpr int64_t kMostFirst = kLongestWhole / 4;

/// Elements of a chunk, a power of two: few chunks are few searches, many keep the GPU busy.
int64_t chunk_length(int64_t length) { return length <= int64_t{1} << 16 ? 4096 : 8192; }

DType key_type(DType dtype) {
  switch (tensor::size_in_bytes(dtype)) {
  case 8:
    return DType::i64;
  case 2:
    return dtype == DType::u16 ? DType::i32 : DType::i16;
  default:
    return DType::i32;
  }
}

int64_t largest_key(DType key) {
  switch (key) {
  case DType::i64:
    return std::numeric_limits<int64_t>::max();
  case DType::i16:
    return std::numeric_limits<int16_t>::max();
  default:
    return std::numeric_limits<int32_t>::max();
  }
}

/// Integers in the order of `x`, or in the opposite one. `stored`: each is read often.
Argument keys_of(GraphBuilder &builder, const Argument &x, bool descending, bool stored) {
  return builder.call("tsc.order_keys.default", {x, descending, stored});
}

Value keys_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  return contiguous_value(key_type(self.dtype), self.layout.sizes, self.device);
}

/// How many elements of its row [.., length] come before each: int64.
Argument counted_ranks(GraphBuilder &builder, const Argument &keys) {
  const TensorMeta meta = builder.meta(keys);
  const Argument positions =
      builder.call("aten.arange.start_step", {0, size_argument(meta.layout.sizes.back()), 1},
                   {{"dtype", DType::i64}, {"device", meta.device}});
  const auto column = [&](const Argument &x) {
    return builder.call("aten.unsqueeze.default", {x, -1});
  };
  const auto row = [&](const Argument &x) {
    return builder.call("aten.unsqueeze.default", {x, -2});
  };
  const Argument less = builder.call("aten.lt.Tensor", {row(keys), column(keys)});
  const Argument equal = builder.call("aten.eq.Tensor", {row(keys), column(keys)});
  const Argument earlier = builder.call("aten.lt.Tensor", {row(positions), column(positions)});
  const Argument ties = builder.call("aten.logical_and.default", {equal, earlier});
  const Argument before = builder.call("aten.logical_or.default", {less, ties});
  return builder.call("aten.sum.dim_IntList", {before, Arguments{-1}, false});
}

Argument reshaped(GraphBuilder &builder, const Argument &x, const Sizes &sizes) {
  return builder.call("aten.reshape.default", {x, sizes_argument(sizes)});
}

/// The sorted elements from place `first` on, `count` of them, and where they were.
struct Sorted {
  Argument values, indices;
};

/// A part of a sorted dimension.
struct Window {
  Expr first = 0, count;
};

Argument slice_of(GraphBuilder &builder, const Argument &x, size_t dim, const Window &window) {
  const Expr length = builder.meta(x).layout.sizes[dim];
  if (window.first.is_integer(0) && window.count == length)
    return x;
  if (window.count.is_integer(1) && !window.first.is_integer()) { // a slice might end before it
    const auto d = static_cast<int64_t>(dim);
    return builder.call("aten.unsqueeze.default",
                        {builder.call("aten.select.int", {x, d, size_argument(window.first)}), d});
  }
  return builder.call("aten.slice.Tensor",
                      {x, static_cast<int64_t>(dim), size_argument(window.first),
                       size_argument(window.first + window.count), 1});
}

Argument positions_of(GraphBuilder &builder, Expr count, tensor::Device device) {
  return builder.call("aten.arange.start_step", {0, size_argument(count), 1},
                      {{"dtype", DType::i64}, {"device", device}});
}

/// `keys` [rows, length] as [rows, chunks, chunk]: what fills the last chunk comes after
/// everything, and so do chunks of nothing else, if there would be fewer than `least`.
Argument in_chunks(GraphBuilder &builder, const Argument &keys, int64_t chunk, int64_t least = 0) {
  const TensorMeta meta = builder.meta(keys);
  const Expr length = meta.layout.sizes[1], whole = symbolic::ceil_div(length, Expr(chunk)),
             chunks = whole.is_integer() ? whole : symbolic::maximum(whole, Expr(least)),
             more = chunks * Expr(chunk) - length;
  Argument padded = keys;
  if (!more.is_integer(0))
    padded = builder.call("aten.constant_pad_nd.default",
                          {keys, Arguments{0, size_argument(more)}, largest_key(meta.dtype)});
  return reshaped(builder, padded, {meta.layout.sizes[0], chunks, Expr(chunk)});
}

/// Where the chunks of [.., chunks, chunk] start: [chunks, 1].
Argument chunk_starts(GraphBuilder &builder, int64_t chunks, int64_t chunk, tensor::Device device) {
  return builder.call(
      "aten.mul.Tensor",
      {builder.call("aten.unsqueeze.default", {positions_of(builder, chunks, device), -1}), chunk});
}

/// How many compare-exchange steps a network takes for each of `length` elements.
int64_t sorting_steps(int64_t length) {
  const auto levels = static_cast<int64_t>(std::bit_width(static_cast<uint64_t>(length - 1)));
  return levels * (levels + 1) / 2;
}

/// Sorting whole rows against finding their first `count` elements by groups of `group`.
int64_t steps_of_whole(int64_t length) { return length * sorting_steps(length); }
int64_t steps_of_groups(int64_t length, int64_t count, int64_t group) {
  const int64_t groups = (length + group - 1) / group;
  return length + steps_of_whole(groups) + steps_of_whole(count * group);
}

/// Elements of a group, a power of two: the groups' best and the elements of the best groups are
/// both to be few, and a block sorts the latter. Of those that hardly differ the largest: fewer
/// groups take less memory.
int64_t group_length(int64_t length, int64_t count) {
  constexpr double kHardly = 1.25;
  std::vector<int64_t> lengths = {2};
  for (int64_t group = 4; count * group <= kLongestWhole; group *= 2)
    lengths.push_back(group);
  double least = 1e30;
  for (const int64_t group : lengths)
    least = std::min(least, static_cast<double>(steps_of_groups(length, count, group)));
  return *std::find_if(lengths.rbegin(), lengths.rend(), [&](int64_t group) {
    return static_cast<double>(steps_of_groups(length, count, group)) <= kHardly * least;
  });
}

/// Whether the first `count` elements of rows that a block could sort are found faster by groups:
/// three kernels more, each of which takes microseconds.
bool groups_pay(const Sizes &sizes, size_t dim, const Window &window) {
  constexpr int64_t kStepsOfLaunches = 50'000'000; // in about ten microseconds, guessed
  const Expr elements = symbolic::numel(sizes), last = window.first + window.count;
  if (!elements.is_integer() || !last.is_integer() || last.value() < 1 || last.value() > kMostFirst)
    return false;
  const int64_t length = sizes[dim].value(), rows = elements.value() / length;
  const int64_t group = group_length(length, last.value());
  const int64_t whole = steps_of_whole(length),
                parts = steps_of_groups(length, last.value(), group);
  return whole >= 3 * parts && rows > kStepsOfLaunches / (whole - parts);
}

/// Where the first `count` elements of the sorted rows [rows, length] of keys were. `by_groups`:
/// even if a block could sort the rows.
///
/// The row is cut into groups of neighbours. Of elements in order of (key, position), the first
/// `count` lie in the `count` groups whose own first elements come first: an element of another
/// group has `count` such before it. Groups in order of (smallest key, place in the row) are in
/// order of their first elements, so their smallest keys are the same question about a row that
/// many times shorter. The elements of the groups found, in the order of the row, are then sorted
/// by a block. Reads the row once, and of it again what is sorted.
///
/// Where the length is a symbol, groups are as `likely` wants them. What no block is known to hold
/// in the end is sorted by digits, whole: it is the row over a group's length, or over that of
/// several groups.
Argument first_order(GraphBuilder &builder, const Argument &keys, int64_t likely, int64_t count,
                     bool by_groups = false) {
  const auto sorted_positions = [&](const Argument &x, Expr window) {
    return builder.item(builder.call("tsc.sort.default", {x, 1, false, 0, size_argument(window)}),
                        1);
  };
  const TensorMeta meta = builder.meta(keys);
  const Expr rows = meta.layout.sizes[0], length = meta.layout.sizes[1];
  if (likely <= kLongestWhole && !by_groups) {
    if (length.is_integer())
      return sorted_positions(keys, count);
    return slice_of(builder, sorted_positions(keys, length), 1, {0, Expr(count)});
  }
  const int64_t group = group_length(likely, count);
  const Argument grouped = in_chunks(builder, keys, group, count);
  const Argument smallest = builder.call("aten.amin.default", {grouped, Arguments{-1}, false});
  const Argument best = first_order(builder, smallest, (likely + group - 1) / group, count);
  const Argument found =
      builder.item(builder.call("tsc.sort.default", {best, 1, false, 0, count}), 0);
  const Argument all =
      builder.call("aten.expand.default", {builder.call("aten.unsqueeze.default", {found, -1}),
                                           sizes_argument({rows, Expr(count), Expr(group)})});
  const Argument candidates = reshaped(
      builder, builder.call("aten.gather.default", {grouped, 1, all}), {rows, Expr(count * group)});
  const Argument places = sorted_positions(candidates, count);
  const int64_t shift = std::countr_zero(static_cast<uint64_t>(group));
  const Argument which = builder.call(
      "aten.gather.default",
      {found, -1, builder.call("aten.bitwise_right_shift.Tensor_Scalar", {places, shift})});
  return builder.call(kAdd, {builder.call("aten.mul.Tensor", {which, group}),
                             builder.call("aten.bitwise_and.Scalar", {places, group - 1})});
}

/// Sorted chunks of rows and, of each element, where it was: [rows, chunks, chunk].
struct Chunks {
  Argument keys, were;
  Expr rows;
  int64_t count, length;
};

/// Chunks filled up to a multiple of `group`, with what comes after everything.
void fill_groups(GraphBuilder &builder, Chunks &chunks, int64_t group) {
  const int64_t more = (group - chunks.count % group) % group;
  if (more == 0)
    return;
  const auto pad = [&](const Argument &x, int64_t with) {
    return builder.call("aten.constant_pad_nd.default", {x, Arguments{0, 0, 0, more}, with});
  };
  chunks.keys = pad(chunks.keys, largest_key(builder.meta(chunks.keys).dtype));
  chunks.were = pad(chunks.were, 0);
  chunks.count += more;
}

/// Each `group` neighbouring chunks become one: an element's place there is its place in its own
/// chunk and, found by search, in each of the others. `to_end`: nobody asks for the keys again.
void merge_groups(GraphBuilder &builder, Chunks &chunks, int64_t group, bool to_end) {
  fill_groups(builder, chunks, group);
  const tensor::Device device = builder.meta(chunks.keys).device;
  const Expr rows = chunks.rows * Expr(chunks.count / group), chunk(chunks.length);
  const Sizes apart = {rows, Expr(group), chunk}, whole = {rows, Expr(group * chunks.length)};
  const Argument keys = reshaped(builder, chunks.keys, whole);
  const Argument elsewhere =
      builder.call("tsc.places.default", {reshaped(builder, chunks.keys, apart), keys});
  const Argument here = builder.call("aten.expand.default",
                                     {positions_of(builder, chunk, device), sizes_argument(apart)});
  const Argument places = builder.call(kAdd, {elsewhere, reshaped(builder, here, whole)});
  chunks.count /= group;
  chunks.length *= group;
  const Sizes merged = {chunks.rows, Expr(chunks.count), Expr(chunks.length)};
  const auto placed = [&](const Argument &x) {
    return reshaped(builder, builder.call("aten.scatter.src", {x, -1, places, x}), merged);
  };
  chunks.were = placed(reshaped(builder, chunks.were, whole));
  if (!to_end)
    chunks.keys = placed(keys);
}

/// Where the elements of the sorted long rows [rows, length] were: chunks are sorted, then merged,
/// kMergedAtOnce of them at a time.
Argument merged_order(GraphBuilder &builder, const Argument &keys, int64_t length) {
  const TensorMeta meta = builder.meta(keys);
  Chunks chunks;
  chunks.rows = meta.layout.sizes[0];
  chunks.length = chunk_length(length);
  chunks.count = (length + chunks.length - 1) / chunks.length;
  const Argument pair = builder.call(
      "tsc.sort.default", {in_chunks(builder, keys, chunks.length), 2, false, 0, chunks.length});
  const Argument starts = chunk_starts(builder, chunks.count, chunks.length, meta.device);
  chunks.keys = builder.item(pair, 0);
  chunks.were = builder.call(kAdd, {builder.item(pair, 1), starts});
  if (length <= std::numeric_limits<int32_t>::max()) // half the bytes
    chunks.were = convert(builder, chunks.were, DType::i32);
  while (chunks.count > 1) {
    const int64_t group = std::min(chunks.count, kMergedAtOnce);
    merge_groups(builder, chunks, group, chunks.count <= kMergedAtOnce);
  }
  return convert(builder, reshaped(builder, chunks.were, {chunks.rows, Expr(chunks.length)}),
                 DType::i64);
}

/// What the kernels that sort by digits have keys for.
bool has_digits(DType dtype) {
  switch (dtype) {
  case DType::boolean:
  case DType::u8:
  case DType::i8:
  case DType::i16:
  case DType::i32:
  case DType::i64:
  case DType::u16:
  case DType::u32:
  case DType::u64:
  case DType::f16:
  case DType::bf16:
  case DType::f32:
  case DType::f64:
    return true;
  default:
    return false;
  }
}

bool merging_pays(const TensorMeta &meta) {
  const Expr elements = symbolic::numel(meta.layout.sizes);
  const auto bytes = static_cast<int64_t>(tensor::size_in_bytes(meta.dtype));
  return elements.is_integer() && elements.value() <= kMergedForEachByte * bytes;
}

Expr rows_of(const Sizes &sizes) { return symbolic::numel(Sizes(sizes.begin(), sizes.end() - 1)); }

/// Which element of a sorted row is asked for: tc_select_at and its kin (tc_select.h).
enum class Selected : int64_t { at, median, nanmedian };

/// Whether one element of each row is found faster by selection (tc_select.h) than by sorting: a
/// block has a row, which it holds, or reads again for each digit of 11 bits.
bool selection_pays(const TensorMeta &meta, size_t dim) {
  constexpr int64_t kShortest = 64, kHeld = 16384, kMultiprocessors = 132;
  constexpr double kOfBlock = 60e3, kMemory = 3e6, kLaunch = 2.5; // bytes a microsecond, us
  const Expr length = meta.layout.sizes[dim];
  if (!has_digits(meta.dtype) || !length.is_integer() || length.value() < kShortest)
    return false;
  if (length.value() <= kHeld)
    return true;
  const auto elements = symbolic::numel(meta.layout.sizes).as_integer();
  if (!elements || length.value() > std::numeric_limits<int32_t>::max() / 2)
    return false;
  const auto bytes = static_cast<double>(tensor::size_in_bytes(meta.dtype));
  const int64_t rows = *elements / length.value();
  const double rounds = static_cast<double>((rows + kMultiprocessors - 1) / kMultiprocessors),
               walks = std::ceil(bytes * 8 / 11) + 2;
  const double selected =
      kLaunch + rounds * walks * bytes * static_cast<double>(length.value()) / kOfBlock;
  const double sorted =
      3 * bytes * kLaunch + static_cast<double>(*elements) * bytes * (3 * bytes + 8) / kMemory;
  return selected < sorted;
}

/// x's last dimension, where no block sorts all of it: it is longer than a block holds, of unknown
/// length, or little of it is wanted.
Sorted sort_long(GraphBuilder &builder, const Argument &x, bool descending, const Window &window) {
  const TensorMeta meta = builder.meta(x);
  const Sizes &sizes = meta.layout.sizes;
  const Expr length = sizes.back();
  const Expr last = window.first + window.count;
  // Of rows whose length is a symbol groups find the first ones where they are likely to be too
  // long for a block, and long beside what is wanted.
  constexpr int64_t kLongBeside = 16;
  const int64_t likely =
      length.is_integer() ? length.value() : likely_size(length, builder.graph()).value();
  const bool is_first =
      last.is_integer() && last.value() > 0 && last.value() <= kMostFirst &&
      (length.is_integer() || (likely > kLongestWhole && likely >= kLongBeside * last.value()));
  if (!is_first && has_digits(meta.dtype) && !merging_pays(meta)) {
    const Argument pair =
        builder.call("tsc.sort.default", {reshaped(builder, x, {rows_of(sizes), length}), 1,
                                          descending, 0, size_argument(length)});
    const auto result = [&](int which) {
      return slice_of(builder, reshaped(builder, builder.item(pair, which), sizes),
                      sizes.size() - 1, window);
    };
    return {result(0), result(1)};
  }
  const Argument keys = keys_of(builder, x, descending, !length.is_integer());
  Argument order;
  if (length.is_integer() || is_first) {
    const Argument of_rows = reshaped(builder, keys, {rows_of(sizes), length});
    order = is_first ? first_order(builder, of_rows, likely, last.value(), true)
                     : merged_order(builder, of_rows, length.value());
    Sizes stored = sizes;
    stored.back() = builder.meta(order).layout.sizes.back();
    order = reshaped(builder, order, stored);
  } else {
    const Argument positions = builder.call(
        "aten.expand.default", {positions_of(builder, length, meta.device), sizes_argument(sizes)});
    order =
        builder.call("aten.scatter.src", {positions, -1, counted_ranks(builder, keys), positions});
  }
  const Argument indices = slice_of(builder, order, sizes.size() - 1, window);
  return {builder.call("aten.gather.default", {x, -1, indices}), indices};
}

Argument with_dimension_moved(GraphBuilder &builder, const Argument &x, size_t from, size_t to) {
  std::vector<size_t> order(builder.meta(x).layout.rank());
  std::iota(order.begin(), order.end(), size_t{0});
  if (from == to)
    return x;
  order.erase(order.begin() + static_cast<ptrdiff_t>(from));
  order.insert(order.begin() + static_cast<ptrdiff_t>(to), from);
  return builder.call("aten.permute.default", {x, ints_argument(order)});
}

/// The places `window` of self sorted along `dim` (none: all of them), and where these elements
/// were.
Sorted sort_dimension(GraphBuilder &builder, const Call &call, const Argument &self, int64_t dim,
                      bool descending, std::optional<Window> wanted = std::nullopt) {
  const TensorMeta meta = builder.meta(self);
  const size_t rank = meta.layout.rank(), d = normalize_dim(call, dim, rank);
  if (rank == 0) {
    const Argument zero = builder.call("aten.full.default", {Arguments{}, 0},
                                       {{"dtype", DType::i64}, {"device", meta.device}});
    return {builder.call("aten.clone.default", {self}), zero};
  }
  const Expr length = meta.layout.sizes[d];
  const Window window = wanted.value_or(Window{0, length});
  if (length.is_integer(1) || symbolic::numel(meta.layout.sizes).is_integer(0)) {
    const Argument part = slice_of(builder, self, d, window);
    const Argument zeros =
        builder.call("aten.full.default", {sizes_argument(builder.meta(part).layout.sizes), 0},
                     {{"dtype", DType::i64}, {"device", meta.device}});
    return {builder.call("aten.clone.default", {part}), zeros};
  }
  const int64_t longest = symbolic::bounds(length, call.ranges()).high;
  if (longest > 0 && longest <= longest_sorted_by_block(meta.dtype) &&
      !groups_pay(meta.layout.sizes, d, window)) {
    const Argument pair = builder.call("tsc.sort.default",
                                       {self, static_cast<int64_t>(d), descending,
                                        size_argument(window.first), size_argument(window.count)});
    return {builder.item(pair, 0), builder.item(pair, 1)};
  }
  const Argument last = with_dimension_moved(builder, self, d, rank - 1);
  const Sorted sorted = sort_long(builder, last, descending, window);
  return {with_dimension_moved(builder, sorted.values, rank - 1, d),
          with_dimension_moved(builder, sorted.indices, rank - 1, d)};
}

Sorted sort(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const Sorted sorted =
      sort_dimension(builder, call, call["self"], call.integer("dim"), call.boolean("descending"));
  tensor::Layout layout = self.layout;
  layout.offset = 0;
  layout.strides = preserved_strides(self.layout, call.ranges());
  return {in_layout(builder, sorted.values, layout), in_layout(builder, sorted.indices, layout)};
}

/// A number that is a symbol has to be no more than `length` when sizes are bound.
void hold_to(const Call &call, Expr number, Expr length) {
  if (call.equal_sizes() != nullptr && !symbolic::known_less_equal(number, length, call.ranges()))
    call.equal_sizes()->emplace_back(symbolic::minimum(number, length), number);
}

Argument topk(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank(), dim = normalize_dim(call, call.integer("dim"), rank);
  const Expr k = call.size("k"), length = rank == 0 ? Expr(1) : self.layout.sizes[dim];
  if (k.is_integer() && (k.value() < 0 || (length.is_integer() && k.value() > length.value())))
    call.fail("TSC-O049",
              call.node().target + ": " + symbolic::print(k) + " of " + symbolic::print(length) +
                  " elements",
              "ask for as many elements as the dimension has, or fewer");
  hold_to(call, k, length);
  const Sorted sorted = sort_dimension(builder, call, call["self"], call.integer("dim"),
                                       call.boolean("largest"), Window{0, k});
  if (rank == 0)
    return Arguments{sorted.values, sorted.indices};
  return Arguments{contiguous(builder, sorted.values), contiguous(builder, sorted.indices)};
}

/// One element of the sorted dimension a row: the only one of `sorted`, or (with `position`) the
/// one there.
Argument picked(GraphBuilder &builder, const Call &call, const Sorted &sorted, size_t dim,
                const std::optional<Argument> &position) {
  const auto pick = [&](const Argument &x) {
    if (builder.meta(x).layout.rank() == 0)
      return x;
    const int64_t d = static_cast<int64_t>(dim);
    Argument one = position ? builder.call("aten.gather.default", {x, d, *position}) : x;
    if (!call.boolean("keepdim"))
      one = builder.call("aten.squeeze.dims", {one, Arguments{d}});
    return contiguous(builder, one);
  };
  return Arguments{pick(sorted.values), pick(sorted.indices)};
}

/// That element of each row along `dim`, which stays as one of size 1.
Sorted selected(GraphBuilder &builder, const Argument &self, size_t dim, Selected which,
                int64_t at) {
  const TensorMeta meta = builder.meta(self);
  const size_t rank = meta.layout.rank();
  const Argument last = with_dimension_moved(builder, self, dim, rank - 1);
  Sizes sizes = builder.meta(last).layout.sizes;
  const Argument rows = reshaped(builder, last, {rows_of(sizes), sizes.back()});
  const Argument pair =
      builder.call("tsc.select_rows.default", {rows, static_cast<int64_t>(which), at});
  sizes.back() = 1;
  const auto result = [&](int64_t item) {
    return with_dimension_moved(builder, reshaped(builder, builder.item(pair, item), sizes),
                                rank - 1, dim);
  };
  return {result(0), result(1)};
}

/// [rows, length]: of each row the element, and where it is.
Value selected_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  const Sizes rows = {self.layout.sizes[0]};
  const Sizes strides = tensor::contiguous_strides(rows);
  return Value{Value::List{tensor_value(self.dtype, rows, strides, self.device),
                           tensor_value(DType::i64, rows, strides, self.device)}};
}

bool may_select(const GraphBuilder &builder, const Argument &self, size_t dim) {
  const TensorMeta meta = builder.meta(self);
  return meta.layout.rank() > 0 && !symbolic::numel(meta.layout.sizes).is_integer(0) &&
         selection_pays(meta, dim);
}

Argument kthvalue(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank(), dim = normalize_dim(call, call.integer("dim"), rank);
  const Expr k = call.size("k"), length = rank == 0 ? Expr(1) : self.layout.sizes[dim];
  if (symbolic::bounds(k, call.ranges()).low < 1 ||
      (k.is_integer() && length.is_integer() && k.value() > length.value()))
    call.fail("TSC-O049",
              call.node().target + ": element " + symbolic::print(k) + " of " +
                  symbolic::print(length),
              "count from 1 to the size of the dimension");
  hold_to(call, k, length);
  constexpr int64_t kFew = 64; // the first ones of long rows: all blocks look for them
  const bool selects = k.is_integer() && !(k.value() <= kFew && length.is_integer() &&
                                           length.value() > kLongestWhole);
  const Sorted sorted = selects && may_select(builder, call["self"], dim)
                            ? selected(builder, call["self"], dim, Selected::at, k.value() - 1)
                            : sort_dimension(builder, call, call["self"], static_cast<int64_t>(dim),
                                             false, Window{k - Expr(1), Expr(1)});
  return picked(builder, call, sorted, dim, std::nullopt);
}

/// Of an even number the lower one. A NaN makes the median NaN, unless they are ignored: then
/// `position` says where it stands in what is sorted.
Sorted sort_for_median(GraphBuilder &builder, const Call &call, const Argument &self, size_t dim,
                       bool ignore_nan, std::optional<Argument> &position) {
  const TensorMeta meta = builder.meta(self);
  const int64_t d = static_cast<int64_t>(dim);
  const Expr length = meta.layout.rank() == 0 ? Expr(1) : meta.layout.sizes[dim];
  if (length.is_integer(0))
    call.fail("TSC-O049", call.node().target + " of no elements",
              "pass a dimension with at least one element");
  const Expr middle = symbolic::floor_div(length - Expr(1), Expr(2));
  if (may_select(builder, self, dim))
    return selected(builder, self, dim, ignore_nan ? Selected::nanmedian : Selected::median, 0);
  if (!tensor::is_floating(meta.dtype))
    return sort_dimension(builder, call, self, d, false, Window{middle, Expr(1)});
  // Numbers come first: their count is the place of the first NaN.
  const Argument nan = builder.call("aten.isnan.default", {self});
  const Argument numbers = builder.call("aten.logical_not.default", {nan});
  const Argument counts = builder.call("aten.sum.dim_IntList", {numbers, Arguments{d}, true});
  if (ignore_nan) {
    const Argument last = builder.call(kSub, {counts, 1});
    const Argument half =
        builder.call("aten.div.Tensor_mode", {last, 2}, {{"rounding_mode", std::string("floor")}});
    position = builder.call("aten.maximum.default", {half, 0});
  } else {
    const Argument any = builder.call("aten.lt.Tensor", {counts, size_argument(length)});
    position = builder.call(kWhere, {any, counts, size_argument(middle)});
  }
  return sort_dimension(builder, call, self, d, false);
}

Argument median_dim(GraphBuilder &builder, const Call &call, bool ignore_nan) {
  const TensorMeta self = call.tensor("self");
  const size_t dim = normalize_dim(call, call.integer("dim"), self.layout.rank());
  std::optional<Argument> position;
  const Sorted sorted = sort_for_median(builder, call, call["self"], dim, ignore_nan, position);
  return picked(builder, call, sorted, dim, position);
}

Argument median(GraphBuilder &builder, const Call &call, bool ignore_nan) {
  const Argument flat = builder.call(
      "aten.reshape.default",
      {call["self"], Arguments{size_argument(symbolic::numel(call.tensor("self").layout.sizes))}});
  std::optional<Argument> position;
  const Sorted sorted = sort_for_median(builder, call, flat, 0, ignore_nan, position);
  const Argument one =
      position ? builder.call("aten.gather.default", {sorted.values, 0, *position}) : sorted.values;
  return builder.call("aten.reshape.default", {one, Arguments{}});
}

void add_sorts(Table &table) {
  const auto both = [](GraphBuilder &builder, const Call &call) -> Argument {
    const Sorted sorted = sort(builder, call);
    return Arguments{sorted.values, sorted.indices};
  };
  const auto indices = [](GraphBuilder &builder, const Call &call) {
    return sort(builder, call).indices;
  };
  table
      .add("sort(Tensor self, int dim=-1, bool descending=False) -> (Tensor values, Tensor "
           "indices)")
      .decompose(both);
  table
      .add("sort.stable(Tensor self, *, bool? stable, int dim=-1, bool descending=False) -> "
           "(Tensor values, Tensor indices)")
      .decompose(both);
  table.add("argsort(Tensor self, int dim=-1, bool descending=False) -> Tensor").decompose(indices);
  table
      .add("argsort.stable(Tensor self, *, bool stable, int dim=-1, bool descending=False) -> "
           "Tensor")
      .decompose(indices);
  table.add("msort(Tensor self) -> Tensor").decompose([](GraphBuilder &builder, const Call &call) {
    return builder.item(builder.call("aten.sort.default", {call["self"], 0, false}), 0);
  });
}

/// `count` elements of the sorted dimension, and where they were: in self's memory order if that is
/// all of them, else row-major.
Value sort_value(const Call &call) {
  const TensorMeta &self = call.tensor("self");
  tensor::Layout layout = self.layout;
  layout.sizes[static_cast<size_t>(call.integer("dim"))] = call.size("count");
  layout.strides = layout.sizes == self.layout.sizes ? preserved_strides(self.layout, call.ranges())
                                                     : tensor::contiguous_strides(layout.sizes);
  return Value{Value::List{tensor_value(self.dtype, layout.sizes, layout.strides, self.device),
                           tensor_value(DType::i64, layout.sizes, layout.strides, self.device)}};
}

/// [rows, chunks, length] each sorted, and the keys [rows, n] that they were cut from.
Value places_value(const Call &call) {
  const TensorMeta &keys = call.tensor("keys");
  return contiguous_value(DType::i64, keys.layout.sizes, keys.device);
}

} // namespace

void add_ordering(Table &table) {
  add_sorts(table);
  table
      .add("tsc::sort(Tensor self, int dim, bool descending, SymInt first, SymInt count) -> "
           "(Tensor values, Tensor indices)")
      .shape(sort_value)
      .lowers("sort");
  table.add("tsc::select_rows(Tensor self, int kind, int at) -> (Tensor values, Tensor indices)")
      .shape(selected_value)
      .lowers("select_rows");
  table.add("tsc::order_keys(Tensor self, bool descending, bool stored) -> Tensor")
      .shape(keys_value)
      .lowers("order_keys");
  table.add("tsc::places(Tensor sorted, Tensor keys) -> Tensor")
      .shape(places_value)
      .lowers("places");
  table
      .add("topk(Tensor self, SymInt k, int dim=-1, bool largest=True, bool sorted=True) -> "
           "(Tensor values, Tensor indices)")
      .decompose(topk);
  table
      .add("kthvalue(Tensor self, SymInt k, int dim=-1, bool keepdim=False) -> (Tensor values, "
           "Tensor indices)")
      .decompose(kthvalue);
  for (bool ignore_nan : {false, true}) {
    const std::string name = ignore_nan ? "nanmedian" : "median";
    table.add(keep_text(name + "(Tensor self) -> Tensor"))
        .decompose([ignore_nan](GraphBuilder &builder, const Call &call) {
          return median(builder, call, ignore_nan);
        });
    table
        .add(keep_text(name +
                       ".dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor "
                       "indices)"))
        .decompose([ignore_nan](GraphBuilder &builder, const Call &call) {
          return median_dim(builder, call, ignore_nan);
        });
  }
}

} // namespace tsc::ops
