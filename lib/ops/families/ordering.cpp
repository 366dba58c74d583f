// Sorting along a dimension. Rows that a block holds are sorted by one operation (ir::Sort); longer
// ones in chunks, whose sorted elements are then searched for in the other chunks; rows of unknown
// length by counting: an element's place is the number of elements that come before it. Where
// elements are only compared they become integer keys that order as PyTorch orders (NaN above
// everything, -0.0 with 0.0). Equal elements stay in their order.
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// Rows up to this length are sorted as a whole.
constexpr int64_t kLongestWhole = 8192;
/// Longer ones take searches in every chunk for each element. Beyond this length that takes too
/// long.
constexpr int64_t kLongest = int64_t{1} << 20;

/// Elements of a chunk, a power of two: few chunks are few searches, many keep the GPU busy.
int64_t chunk_length(int64_t length) { return length <= int64_t{1} << 16 ? 4096 : 8192; }

DType key_type(DType dtype) { return tensor::size_in_bytes(dtype) == 8 ? DType::i64 : DType::i32; }

int64_t largest_key(DType key) {
  return key == DType::i64 ? std::numeric_limits<int64_t>::max()
                           : std::numeric_limits<int32_t>::max();
}

/// Integers in the order of `x`, or in the opposite one.
Argument keys_of(GraphBuilder &builder, const Argument &x, bool descending) {
  return builder.call("tsc.order_keys.default", {x, descending});
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
  return builder.call("aten.slice.Tensor",
                      {x, static_cast<int64_t>(dim), size_argument(window.first),
                       size_argument(window.first + window.count), 1});
}

Argument positions_of(GraphBuilder &builder, Expr count, tensor::Device device) {
  return builder.call("aten.arange.start_step", {0, size_argument(count), 1},
                      {{"dtype", DType::i64}, {"device", device}});
}

/// Where the elements of the sorted long rows [rows, length] were: chunks are sorted, then each
/// element is searched for in every other chunk.
Argument searched_order(GraphBuilder &builder, const Argument &keys, int64_t length) {
  const TensorMeta meta = builder.meta(keys);
  const Expr rows = meta.layout.sizes[0];
  const int64_t chunk = chunk_length(length), chunks = (length + chunk - 1) / chunk;
  const int64_t more = chunks * chunk - length;
  Argument padded = keys; // what fills the last chunk comes after everything
  if (more > 0)
    padded = builder.call("aten.constant_pad_nd.default",
                          {keys, Arguments{0, more}, largest_key(meta.dtype)});
  const Sizes apart = {rows, Expr(chunks), Expr(chunk)}, whole = {rows, Expr(chunks * chunk)};
  const Argument pair =
      builder.call("tsc.sort.default", {reshaped(builder, padded, apart), 2, false, 0, chunk});
  const Argument sorted = builder.item(pair, 0);
  const Argument elsewhere =
      builder.call("tsc.places.default", {sorted, reshaped(builder, sorted, whole)});
  const Argument here = builder.call(
      "aten.expand.default", {positions_of(builder, chunk, meta.device), sizes_argument(apart)});
  const Argument places = builder.call(kAdd, {elsewhere, reshaped(builder, here, whole)});
  const Argument starts = builder.call(
      "aten.mul.Tensor",
      {builder.call("aten.unsqueeze.default", {positions_of(builder, chunks, meta.device), -1}),
       chunk});
  const Argument were =
      reshaped(builder, builder.call(kAdd, {builder.item(pair, 1), starts}), whole);
  return builder.call("aten.scatter.src", {were, -1, places, were});
}

/// x's last dimension, longer than a block holds, or of unknown length.
Sorted sort_long(GraphBuilder &builder, const Call &call, const Argument &x, bool descending,
                 const Window &window) {
  const TensorMeta meta = builder.meta(x);
  const Sizes &sizes = meta.layout.sizes;
  const Expr length = sizes.back();
  if (length.is_integer() && length.value() > kLongest)
    throw support::UserError(
        support::ExitCode::unsupported,
        support::Diagnostic{"TSC-O007",
                            call.node().target + " of rows of " + symbolic::print(length) +
                                " elements is not supported",
                            "", "", call.node().name, "",
                            "sort rows of " + std::to_string(kLongest) + " elements at most"});
  const Argument keys = keys_of(builder, x, descending);
  Argument order;
  if (length.is_integer()) {
    const Expr rows = symbolic::numel(Sizes(sizes.begin(), sizes.end() - 1));
    order = searched_order(builder, reshaped(builder, keys, {rows, length}), length.value());
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
  if (longest > 0 && longest <= kLongestWhole) {
    const Argument pair = builder.call("tsc.sort.default",
                                       {self, static_cast<int64_t>(d), descending,
                                        size_argument(window.first), size_argument(window.count)});
    return {builder.item(pair, 0), builder.item(pair, 1)};
  }
  const Argument last = with_dimension_moved(builder, self, d, rank - 1);
  const Sorted sorted = sort_long(builder, call, last, descending, window);
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

Argument topk(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank(), dim = normalize_dim(call, call.integer("dim"), rank);
  const Expr k = call.size("k"), length = rank == 0 ? Expr(1) : self.layout.sizes[dim];
  if (k.is_integer() && (k.value() < 0 || (length.is_integer() && k.value() > length.value())))
    call.fail("TSC-O049",
              call.node().target + ": " + symbolic::print(k) + " of " + symbolic::print(length) +
                  " elements",
              "ask for as many elements as the dimension has, or fewer");
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

Argument kthvalue(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank(), dim = normalize_dim(call, call.integer("dim"), rank);
  const int64_t k = call.integer("k");
  const Expr length = rank == 0 ? Expr(1) : self.layout.sizes[dim];
  if (k < 1 || (length.is_integer() && k > length.value()))
    call.fail("TSC-O049",
              call.node().target + ": element " + std::to_string(k) + " of " +
                  symbolic::print(length),
              "count from 1 to the size of the dimension");
  const Sorted sorted = sort_dimension(builder, call, call["self"], static_cast<int64_t>(dim),
                                       false, Window{Expr(k - 1), Expr(1)});
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
  table.add("tsc::order_keys(Tensor self, bool descending) -> Tensor")
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
