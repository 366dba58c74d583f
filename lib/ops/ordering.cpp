// Sorting along a dimension, by counting: an element's place is the number of elements that come
// before it. Every element becomes an integer key that orders as PyTorch orders (NaN above
// everything, -0.0 with 0.0); equal keys stay in their order.
#include "ops/memory_format.h"
#include "ops/pointwise_rules.h"
#include "ops/shape_rules.h"
#include "ops/table.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

/// Rows up to this length are counted as a whole: every element against every other.
constexpr int64_t kLongestCounted = 4096;
/// Longer ones are counted in chunks, then searched for in the sorted chunks. Beyond this length
/// that takes too long.
constexpr int64_t kLongest = int64_t{1} << 20;

/// Elements of a chunk, a power of two: counting takes a chunk's length an element, searching the
/// number of chunks times the logarithm of their length.
int64_t chunk_length(int64_t length) {
  int64_t chunk = 512;
  while (chunk * chunk * 16 < length * 64 && chunk < 4096)
    chunk *= 2;
  return chunk;
}

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

/// Places in long rows [rows, length]: within chunks by counting, then in every other chunk by
/// binary search.
Argument searched_ranks(GraphBuilder &builder, const Argument &keys, int64_t length) {
  const TensorMeta meta = builder.meta(keys);
  const Expr rows = meta.layout.sizes[0];
  const int64_t chunk = chunk_length(length), chunks = (length + chunk - 1) / chunk;
  const int64_t more = chunks * chunk - length;
  Argument padded = keys; // what fills the last chunk comes after everything
  if (more > 0)
    padded = builder.call("aten.constant_pad_nd.default",
                          {keys, Arguments{0, more}, largest_key(meta.dtype)});
  const Argument apart = reshaped(builder, padded, {rows, Expr(chunks), Expr(chunk)});
  const Argument local = counted_ranks(builder, apart);
  const Argument sorted = builder.call("aten.scatter.src", {apart, -1, local, apart});
  Argument inside = reshaped(builder, local, {rows, Expr(chunks * chunk)});
  if (more > 0)
    inside = builder.call("aten.slice.Tensor", {inside, 1, 0, length});
  return builder.call(kAdd, {inside, builder.call("tsc.places.default", {sorted, keys})});
}

/// The permutation that sorts: x's last dimension is the sorted one.
struct Sorted {
  Argument values, indices;
};

Sorted sort_last(GraphBuilder &builder, const Call &call, const Argument &x, bool descending) {
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
  Argument ranks;
  if (length.is_integer() && length.value() > kLongestCounted) {
    const Expr rows = symbolic::numel(Sizes(sizes.begin(), sizes.end() - 1));
    ranks = searched_ranks(builder, reshaped(builder, keys, {rows, length}), length.value());
    ranks = reshaped(builder, ranks, sizes);
  } else {
    ranks = counted_ranks(builder, keys);
  }
  Argument positions = builder.call("aten.arange.start_step", {0, size_argument(length), 1},
                                    {{"dtype", DType::i64}, {"device", meta.device}});
  positions = builder.call("aten.expand.default", {positions, sizes_argument(sizes)});
  return {builder.call("aten.scatter.src", {x, -1, ranks, x}),
          builder.call("aten.scatter.src", {positions, -1, ranks, positions})};
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

/// self sorted along `dim`, and where its elements were.
Sorted sort_dimension(GraphBuilder &builder, const Call &call, const Argument &self, int64_t dim,
                      bool descending) {
  const TensorMeta meta = builder.meta(self);
  const size_t rank = meta.layout.rank(), d = normalize_dim(call, dim, rank);
  const bool trivial = rank == 0 || meta.layout.sizes[d].is_integer(1) ||
                       symbolic::numel(meta.layout.sizes).is_integer(0);
  if (trivial) {
    const Argument zeros = builder.call("aten.full.default", {sizes_argument(meta.layout.sizes), 0},
                                        {{"dtype", DType::i64}, {"device", meta.device}});
    return {builder.call("aten.clone.default", {self}), zeros};
  }
  const Argument last = with_dimension_moved(builder, self, d, rank - 1);
  const Sorted sorted = sort_last(builder, call, last, descending);
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

Argument contiguous(GraphBuilder &builder, const Argument &x) {
  return in_layout(builder, x, tensor::contiguous_layout(builder.meta(x).layout.sizes));
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
  const Sorted sorted =
      sort_dimension(builder, call, call["self"], call.integer("dim"), call.boolean("largest"));
  const auto first = [&](const Argument &x) {
    if (rank == 0)
      return x;
    const Argument part =
        builder.call("aten.slice.Tensor", {x, static_cast<int64_t>(dim), 0, size_argument(k), 1});
    return contiguous(builder, part);
  };
  return Arguments{first(sorted.values), first(sorted.indices)};
}

/// Element `position` of the sorted dimension (a number, or one a row), and where it was.
Argument picked(GraphBuilder &builder, const Call &call, const Sorted &sorted, size_t dim,
                const Argument &position) {
  const auto pick = [&](const Argument &x) {
    if (builder.meta(x).layout.rank() == 0)
      return x;
    const int64_t d = static_cast<int64_t>(dim);
    Argument one = position.node()
                       ? builder.call("aten.gather.default", {x, d, position})
                       : builder.call("aten.slice.Tensor",
                                      {x, d, position, std::get<int64_t>(position.value) + 1, 1});
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
  const Sorted sorted =
      sort_dimension(builder, call, call["self"], static_cast<int64_t>(dim), false);
  return picked(builder, call, sorted, dim, k - 1);
}

/// Of an even number the lower one. A NaN makes the median NaN, unless they are ignored.
Sorted sort_for_median(GraphBuilder &builder, const Call &call, const Argument &self, size_t dim,
                       bool ignore_nan, Argument &position) {
  const TensorMeta meta = builder.meta(self);
  const int64_t d = static_cast<int64_t>(dim);
  const Expr length = meta.layout.rank() == 0 ? Expr(1) : meta.layout.sizes[dim];
  if (length.is_integer(0))
    call.fail("TSC-O049", call.node().target + " of no elements",
              "pass a dimension with at least one element");
  const Sorted sorted = sort_dimension(builder, call, self, d, false);
  if (!length.is_integer() || tensor::is_floating(meta.dtype)) {
    // Numbers come first: their count is the place of the first NaN.
    const Argument nan = builder.call("aten.isnan.default", {self});
    const Argument numbers = builder.call("aten.logical_not.default", {nan});
    const Argument counts = builder.call("aten.sum.dim_IntList", {numbers, Arguments{d}, true});
    const Argument middle = size_argument(symbolic::floor_div(length - Expr(1), Expr(2)));
    if (ignore_nan) {
      const Argument last = builder.call(kSub, {counts, 1});
      const Argument half = builder.call("aten.div.Tensor_mode", {last, 2},
                                         {{"rounding_mode", std::string("floor")}});
      position = builder.call("aten.maximum.default", {half, 0});
    } else {
      const Argument any = builder.call("aten.lt.Tensor", {counts, size_argument(length)});
      position = builder.call(kWhere, {any, counts, middle});
    }
    return sorted;
  }
  position = (length.value() - 1) / 2;
  return sorted;
}

Argument median_dim(GraphBuilder &builder, const Call &call, bool ignore_nan) {
  const TensorMeta self = call.tensor("self");
  const size_t dim = normalize_dim(call, call.integer("dim"), self.layout.rank());
  Argument position;
  const Sorted sorted = sort_for_median(builder, call, call["self"], dim, ignore_nan, position);
  return picked(builder, call, sorted, dim, position);
}

Argument median(GraphBuilder &builder, const Call &call, bool ignore_nan) {
  const Argument flat = builder.call(
      "aten.reshape.default",
      {call["self"], Arguments{size_argument(symbolic::numel(call.tensor("self").layout.sizes))}});
  Argument position;
  const Sorted sorted = sort_for_median(builder, call, flat, 0, ignore_nan, position);
  Argument one =
      position.node()
          ? builder.call("aten.gather.default", {sorted.values, 0, position})
          : builder.call("aten.slice.Tensor",
                         {sorted.values, 0, position, std::get<int64_t>(position.value) + 1, 1});
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

/// [rows, chunks, length] each sorted, and the keys [rows, n] that they were cut from.
Value places_value(const Call &call) {
  const TensorMeta &keys = call.tensor("keys");
  return contiguous_value(DType::i64, keys.layout.sizes, keys.device);
}

} // namespace

void add_ordering(Table &table) {
  add_sorts(table);
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
