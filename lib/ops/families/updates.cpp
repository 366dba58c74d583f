// A tensor with some of its elements replaced: by region, by index along one dimension, by mask.
#include "ops/families/checks.h"
#include "ops/families/storage_bounds.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <optional>

namespace tsc::ops {
namespace {

constexpr std::string_view kIndexPut = "aten.index_put.default", kReshape = "aten.reshape.default",
                           kPermute = "aten.permute.default";

/// start, start + step, ...
Argument positions(GraphBuilder &builder, Expr length, Expr start, Expr step,
                   tensor::Device device) {
  return builder.call("prims.iota.default", {size_argument(length)},
                      {{"start", size_argument(start)},
                       {"step", size_argument(step)},
                       {"dtype", DType::i64},
                       {"device", device},
                       {"requires_grad", false}});
}

/// The same, as the only dimension of `rank` that is not 1.
Argument positions_along(GraphBuilder &builder, Expr length, Expr start, Expr step,
                         tensor::Device device, size_t dim, size_t rank) {
  std::vector<Expr> sizes(rank, Expr(1));
  sizes[dim] = length;
  return builder.call(kReshape,
                      {positions(builder, length, start, step, device), sizes_argument(sizes)});
}

/// `x` with its last dimension moved to `dim`.
Argument move_last_to(GraphBuilder &builder, const Argument &x, size_t dim) {
  const size_t rank = builder.meta(x).layout.rank();
  std::vector<size_t> order;
  for (size_t i = 0; i + 1 < rank; ++i)
    order.push_back(i);
  order.insert(order.begin() + static_cast<ptrdiff_t>(dim), rank - 1);
  return builder.call(kPermute, {x, ints_argument(order)});
}

Argument diagonal_scatter(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank();
  const size_t dim1 = existing_dim(call, call.integer("dim1"), rank);
  const size_t dim2 = existing_dim(call, call.integer("dim2"), rank);
  const int64_t shift = call.integer("offset");
  Argument seen = builder.call("aten.diagonal.default",
                               {call["self"], call["offset"], call["dim1"], call["dim2"]});
  const std::vector<Expr> sizes = builder.meta(seen).layout.sizes;
  require_sizes(call, "src", sizes);
  Arguments indices(std::max(dim1, dim2) + 1, graph::None{});
  indices[dim1] =
      positions(builder, sizes.back(), Expr(std::max<int64_t>(-shift, 0)), Expr(1), self.device);
  indices[dim2] =
      positions(builder, sizes.back(), Expr(std::max<int64_t>(shift, 0)), Expr(1), self.device);
  // Index tensors at neighbouring dimensions stand there in what is written, else in front.
  const size_t low = std::min(dim1, dim2), high = std::max(dim1, dim2);
  Argument values = move_last_to(builder, call["src"], high == low + 1 ? low : 0);
  return builder.call(kIndexPut, {call["self"], indices, values});
}

/// Windows that do not overlap: (.., n, .., size) back to dimension `dimension`.
Argument unfold_scatter(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self"), source = call.tensor("src");
  const size_t dim = normalize_dim(call, call.integer("dimension"), self.layout.rank());
  const int64_t size = call.integer("size"), step = call.integer("step");
  if (step < size)
    call.fail("TSC-O072",
              "a write goes through overlapping windows of aten.unfold: several elements are one "
              "in memory",
              "clone() the windows before writing to them");
  if (self.layout.rank() == 0)
    return builder.call(kReshape, {call["src"], Arguments{}});
  const Expr count = source.layout.sizes[dim];
  Argument starts = positions_along(builder, count, Expr(0), Expr(step), self.device, 0, 2);
  Argument inside = positions_along(builder, Expr(size), Expr(0), Expr(1), self.device, 1, 2);
  Arguments indices(dim, graph::None{});
  indices.push_back(builder.call(kAdd, {starts, inside}));
  return builder.call(kIndexPut,
                      {call["self"], indices, move_last_to(builder, call["src"], dim + 1)});
}

/// Whether two elements of these sizes and strides are one in memory, or nothing where that is not
/// known: of sizes that are symbols, and of more elements than are worth being looked at.
std::optional<bool> overlaps(const std::vector<std::pair<Expr, Expr>> &dimensions) {
  constexpr int64_t most = int64_t(1) << 20;
  std::vector<int64_t> places{0};
  for (const auto &[size, stride] : dimensions) {
    const std::optional<int64_t> count = size.as_integer(), step = stride.as_integer();
    if (!count || !step || *count > most / std::max<int64_t>(int64_t(places.size()), 1))
      return std::nullopt;
    std::vector<int64_t> more;
    more.reserve(places.size() * size_t(*count));
    for (const int64_t place : places)
      for (int64_t i = 0; i < *count; ++i)
        more.push_back(place + i * *step);
    places = std::move(more);
  }
  std::sort(places.begin(), places.end());
  return std::adjacent_find(places.begin(), places.end()) != places.end();
}

/// True if two elements of sizes and strides may be one in memory: some stride does not step over
/// what the smaller ones reach, and no look at each element says otherwise.
bool may_overlap(std::vector<std::pair<Expr, Expr>> dimensions, const symbolic::Ranges &ranges) {
  std::stable_sort(dimensions.begin(), dimensions.end(), [&](const auto &a, const auto &b) {
    return symbolic::bounds(a.second, ranges).low < symbolic::bounds(b.second, ranges).low;
  });
  Expr reached(0);
  for (const auto &[size, stride] : dimensions) {
    if (size.is_integer(1))
      continue;
    if (symbolic::bounds(symbolic::simplify(stride - reached, ranges), ranges).low < 1)
      return overlaps(dimensions).value_or(true);
    reached += (size - 1) * stride;
  }
  return false;
}

/// Through the flat memory: positions offset + sum(i_k * stride_k).
Argument as_strided_scatter(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const std::vector<Expr> sizes = call.sizes("size"), strides = call.sizes("stride");
  require_sizes(call, "src", sizes);
  require_strides(call, sizes, strides);
  // The tensor's own part of its memory, which is dense, begins at its offset.
  const Expr offset =
      call.has("storage_offset") ? call.size("storage_offset") - self.layout.offset : Expr(0);
  require_within(builder, call, {sizes, strides, offset}, symbolic::numel(self.layout.sizes));
  std::vector<std::pair<Expr, Expr>> dimensions;
  for (size_t i = 0; i < sizes.size(); ++i)
    dimensions.emplace_back(sizes[i], strides.at(i));
  if (may_overlap(dimensions, call.ranges()))
    call.fail("TSC-O072",
              "a write goes through aten.as_strided: several elements are one in memory",
              "use sizes and strides that reach each element once");
  const std::vector<size_t> order = tensor::stride_order(self.layout.strides);
  std::vector<size_t> inverse(order.size());
  std::vector<Expr> ordered;
  for (size_t i = 0; i < order.size(); ++i) {
    inverse[order[i]] = i;
    ordered.push_back(self.layout.sizes[order[i]]);
  }
  Argument flat = builder.call(kPermute, {call["self"], ints_argument(order)});
  if (!builder.meta(flat).layout.is_contiguous())
    call.fail("TSC-O071",
              "as_strided of memory with gaps that has been written to is not supported",
              "take slices of the tensor, or call contiguous() before writing");
  flat = builder.call(kReshape, {flat, Arguments{-1}});
  Argument index = positions(builder, Expr(1), offset, Expr(1), self.device);
  for (size_t i = 0; i < sizes.size(); ++i)
    index = builder.call(kAdd, {index, positions_along(builder, sizes[i], Expr(0), strides[i],
                                                       self.device, i, sizes.size())});
  if (sizes.empty())
    index = builder.call(kReshape, {index, Arguments{}});
  Argument written = builder.call(kIndexPut, {flat, Arguments{index}, call["src"]});
  written = builder.call(kReshape, {written, sizes_argument(ordered)});
  return builder.call(kPermute, {written, ints_argument(inverse)});
}

/// index_fill: one value at the given positions of a dimension.
Argument index_fill(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t dim = normalize_dim(call, call.integer("dim"), self.layout.rank());
  Argument value = call["value"];
  if (call.optional_tensor("value"))
    value = convert(builder, value, self.dtype);
  else
    value = builder.call("aten.full.default", {Arguments{}, value},
                         {{"dtype", self.dtype}, {"device", self.device}});
  Argument base = call["self"];
  if (self.layout.rank() == 0)
    base = builder.call(kReshape, {base, Arguments{1}});
  Arguments indices(dim, graph::None{});
  indices.push_back(call["index"]);
  Argument result = builder.call(kIndexPut, {base, indices, value});
  return self.layout.rank() == 0 ? builder.call(kReshape, {result, Arguments{}}) : result;
}

/// Element k of `source`, in order, goes to the k-th place where `mask` holds.
Argument masked_scatter(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self"), source = call.tensor("source");
  std::vector<Expr> sizes = broadcast(call, {self.layout.sizes, call.tensor("mask").layout.sizes});
  const Expr given = symbolic::numel(source.layout.sizes);
  if (symbolic::numel(sizes).is_integer(0)) // nothing to write
    return builder.call(
        "aten.clone.default",
        {builder.call("aten.expand.default", {call["self"], sizes_argument(sizes)})});
  Argument mask = builder.call("aten.expand.default", {call["mask"], sizes_argument(sizes)});
  Argument flat = builder.call(kReshape, {mask, Arguments{-1}});
  Argument count = builder.call("aten.cumsum.default", {convert(builder, flat, DType::i64), 0});
  count = builder.call(kWhere, {flat, count, 0}); // elsewhere nothing is read
  count = checked_with(builder, count, given + 1,
                       "the mask takes {value} elements of the source, not in [0, {size})");
  Argument values = builder.call(kReshape, {call["source"], Arguments{-1}});
  // Element k stands behind one that nothing reads, so that there is an element 0 in any case.
  values = builder.call("aten.constant_pad_nd.default", {values, Arguments{1, 0}, 0});
  Argument picked = builder.call("aten.index.Tensor", {values, Arguments{count}});
  picked = builder.call(kReshape, {picked, sizes_argument(sizes)});
  return builder.call(kWhere, {mask, picked, call["self"]});
}

/// The main diagonal of a matrix, or the elements whose indices are all equal; `wrap` starts the
/// diagonal of a tall matrix again below its end, one row apart.
Argument fill_diagonal(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const std::vector<Expr> &sizes = self.layout.sizes;
  const size_t rank = sizes.size();
  if (rank < 2)
    call.fail("TSC-O035", call.node().target + " needs 2 or more dimensions", "pass a matrix");
  auto along = [&](size_t dim) {
    return positions_along(builder, sizes[dim], Expr(0), Expr(1), self.device, dim, rank);
  };
  Argument first = along(0);
  if (rank == 2 && call.boolean("wrap"))
    first = builder.call("aten.remainder.Scalar", {first, size_argument(sizes[1] + 1)});
  Argument mask = builder.call("aten.eq.Tensor", {first, along(1)});
  for (size_t dim = 2; dim < rank; ++dim)
    mask = builder.call("aten.logical_and.default",
                        {mask, builder.call("aten.eq.Tensor", {first, along(dim)})});
  return builder.call("aten.masked_fill.Scalar", {call["self"], mask, call["fill_value"]});
}

} // namespace

void add_updates(Table &table) {
  table
      .add("diagonal_scatter(Tensor self, Tensor src, int offset=0, int dim1=0, int dim2=1) -> "
           "Tensor")
      .decompose(diagonal_scatter);
  table
      .add("as_strided_scatter(Tensor self, Tensor src, SymInt[] size, SymInt[] stride, SymInt? "
           "storage_offset=None) -> Tensor")
      .decompose(as_strided_scatter);
  table
      .add("tsc::unfold_scatter(Tensor self, Tensor src, int dimension, int size, int step) -> "
           "Tensor")
      .decompose(unfold_scatter);
  table.add("index_fill.int_Scalar(Tensor self, int dim, Tensor index, Scalar value) -> Tensor")
      .decompose(index_fill);
  table.add("index_fill.int_Tensor(Tensor self, int dim, Tensor index, Tensor value) -> Tensor")
      .decompose(index_fill);
  table.add("masked_scatter(Tensor self, Tensor mask, Tensor source) -> Tensor")
      .decompose(contiguously(masked_scatter));
  table.add("tsc::fill_diagonal(Tensor self, Scalar fill_value, bool wrap=False) -> Tensor")
      .decompose(fill_diagonal);
  table.add_mutating(
      "fill_diagonal_(Tensor(a!) self, Scalar fill_value, bool wrap=False) -> Tensor(a!)",
      "tsc.fill_diagonal.default");
}

} // namespace tsc::ops
