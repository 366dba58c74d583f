// Reductions over runs of a dimension, and positions of what is not zero where their number is
// given.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Argument positions(GraphBuilder &builder, Expr count) {
  return builder.call("aten.arange.start_step", {0, size_argument(count), 1},
                      {{"dtype", DType::i64}});
}

struct SegmentReduction {
  std::string_view scatter; // scatter_reduce's name
  double identity;          // of an empty segment without an initial value
};

SegmentReduction reduction_of(const Call &call) {
  const std::string name = call.string("reduce").value_or("");
  if (name == "sum")
    return {"sum", 0};
  if (name == "mean")
    return {"sum", 0};
  if (name == "max")
    return {"amax", -INFINITY};
  if (name == "min")
    return {"amin", INFINITY};
  if (name == "prod")
    return {"prod", 1};
  call.fail("TSC-O030", call.node().target + ": unknown reduction '" + name + "'",
            "use 'sum', 'mean', 'max', 'min' or 'prod'");
}

/// Every element goes to the segment whose offsets enclose its position; those outside of all go to
/// one more, which is dropped.
Argument segment_reduce(GraphBuilder &builder, const Call &call) {
  const TensorMeta data = call.tensor("data");
  const SegmentReduction reduction = reduction_of(call);
  if (call.has("indices") || call.has("lengths") == call.has("offsets"))
    call.refuse("TSC-O035", call.node().target + " takes lengths or offsets",
                "pass one of the two, and no indices");
  const size_t axis = existing_dim(call, call.integer("axis"), data.layout.rank());
  const std::string_view given = call.has("lengths") ? "lengths" : "offsets";
  const TensorMeta bounds = call.tensor(given);
  if (bounds.layout.rank() != axis + 1)
    call.fail("TSC-O129",
              call.node().target + ": " + std::string(given) + " " +
                  print_sizes(bounds.layout.sizes) + " for dimension " + std::to_string(axis) +
                  " of " + print_sizes(data.layout.sizes),
              "pass a row of them for each index of the dimensions before it");
  for (size_t d = 0; d < axis; ++d)
    if (!taken_equal(call, bounds.layout.sizes[d], data.layout.sizes[d]))
      call.fail("TSC-O129",
                call.node().target + ": " + std::string(given) + " " +
                    print_sizes(bounds.layout.sizes) + " for " + print_sizes(data.layout.sizes),
                "pass a row of them for each index of the dimensions before it");
  const auto part = [&](const Argument &x, int64_t first, int64_t last) {
    return builder.call("aten.slice.Tensor", {x, -1, first, last, 1});
  };
  Argument ends, begins, lengths;
  if (given == "lengths") {
    lengths = convert(builder, call[given], DType::i64);
    ends = builder.call("aten.cumsum.default", {lengths, -1});
    begins = builder.call(kSub, {ends, lengths});
  } else {
    Argument offsets = convert(builder, call[given], DType::i64);
    begins = part(offsets, 0, -1);
    ends = part(offsets, 1, INT64_MAX);
    lengths = builder.call(kSub, {ends, begins});
  }
  const Expr count = builder.meta(ends).layout.sizes.back(), elements = data.layout.sizes[axis];
  // [.., elements]: how many segments end at or before the position; before the first begin: none.
  Argument column = builder.call("aten.unsqueeze.default", {positions(builder, elements), -1});
  Argument passed =
      builder.call("aten.le.Tensor", {builder.call("aten.unsqueeze.default", {ends, -2}), column});
  Argument segment = builder.call("aten.sum.dim_IntList",
                                  {convert(builder, passed, DType::i64), Arguments{-1}, false});
  Argument first = builder.call("aten.slice.Tensor", {begins, -1, 0, 1, 1});
  Argument is_inside = builder.call("aten.ge.Tensor", {positions(builder, elements), first});
  segment = builder.call(kWhere, {is_inside, segment, size_argument(count)});
  // To the shape of the data.
  Sizes shape(data.layout.sizes.begin(),
              data.layout.sizes.begin() + static_cast<ptrdiff_t>(axis) + 1);
  shape.resize(data.layout.rank(), Expr(1));
  segment = builder.call("aten.reshape.default", {segment, sizes_argument(shape)});
  segment = builder.call("aten.expand.default", {segment, sizes_argument(data.layout.sizes)});
  const double start = call.has("initial") ? call.number("initial") : reduction.identity;
  Sizes sums = data.layout.sizes;
  sums[axis] = count + Expr(1);
  const auto d = static_cast<int64_t>(axis);
  Argument wide = widen(builder, call["data"]);
  Argument result = builder.call("aten.full.default", {sizes_argument(sums), start},
                                 {{"dtype", builder.meta(wide).dtype}, {"device", data.device}});
  result = builder.call("aten.scatter_reduce.two",
                        {result, d, segment, wide, std::string(reduction.scatter)},
                        {{"include_self", true}});
  result = builder.call("aten.slice.Tensor", {result, d, 0, size_argument(count), 1});
  if (call.string("reduce") == "mean") {
    Sizes rows = builder.meta(lengths).layout.sizes;
    rows.resize(data.layout.rank(), Expr(1));
    lengths = builder.call("aten.reshape.default", {lengths, sizes_argument(rows)});
    Argument mean = builder.call(kDiv, {result, lengths});
    Argument empty = call.has("initial") ? Argument(start) : Argument(NAN);
    result = builder.call(kWhere, {builder.call("aten.gt.Scalar", {lengths, 0}), mean, empty});
  }
  return convert(builder, result, data.dtype);
}

/// [size, rank]: where self is not zero, in order; behind the last, fill_value.
Argument nonzero_static(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const Expr size = call.size("size");
  if (size.is_integer() && size.value() < 0)
    call.fail("TSC-O129", call.node().target + ": size is " + symbolic::print(size),
              "pass a size of 0 or more");
  const size_t rank = self.layout.rank();
  const Expr count = symbolic::numel(self.layout.sizes);
  Argument flat =
      builder.call("aten.reshape.default", {call["self"], Arguments{size_argument(count)}});
  Argument is_found = builder.call("aten.ne.Scalar", {flat, 0});
  Argument order = builder.call("aten.cumsum.default", {convert(builder, is_found, DType::i64), 0});
  Argument place = builder.call(kSub, {order, 1});
  Argument is_kept =
      builder.call("aten.logical_and.default",
                   {is_found, builder.call("aten.lt.Scalar", {place, size_argument(size)})});
  place = builder.call(kWhere,
                       {is_kept, place, size_argument(size)}); // else one more, which is dropped
  Argument where = builder.call("aten.full.default", {Arguments{size_argument(size + Expr(1))}, -1},
                                {{"dtype", DType::i64}, {"device", self.device}});
  where = builder.call("aten.scatter.src", {where, 0, place, positions(builder, count)});
  where = builder.call("aten.slice.Tensor", {where, 0, 0, size_argument(size), 1});
  Argument is_there = builder.call("aten.ge.Scalar", {where, 0});
  if (rank == 0)
    return builder.call("aten.full.default",
                        {Arguments{size_argument(size), 0}, call["fill_value"]},
                        {{"dtype", DType::i64}, {"device", self.device}});
  Arguments columns;
  Expr stride = count;
  for (size_t d = 0; d < rank; ++d) {
    const Expr extent = self.layout.sizes[d];
    stride = extent.is_integer(0) ? Expr(1) : symbolic::floor_div(stride, extent);
    Argument index = where;
    if (d + 1 < rank)
      index = builder.call("aten.div.Tensor_mode", {index, size_argument(stride)},
                           {{"rounding_mode", "floor"}});
    if (d > 0 && !extent.is_integer(0))
      index = builder.call("aten.remainder.Scalar", {index, size_argument(extent)});
    columns.push_back(builder.call(kWhere, {is_there, index, call["fill_value"]}));
  }
  return builder.call("aten.stack.default", {columns, 1});
}

/// The offsets of a tensor with one jagged dimension: row b holds the elements from offsets[b] on,
/// up to offsets[b + 1].
Argument only_offsets(GraphBuilder &builder, const Call &call) {
  const Arguments *offsets = call["offsets"].list();
  if (!offsets || offsets->size() != 1 || !offsets->front().node() ||
      builder.meta(offsets->front()).layout.rank() != 1)
    call.refuse("TSC-O035", call.node().target + " of more than one jagged dimension",
                "pass the offsets of one, a vector");
  return convert(builder, offsets->front(), DType::i64);
}

/// `x` with dimensions of size 1 behind it, up to `rank`.
Argument with_rank(GraphBuilder &builder, Argument x, size_t rank) {
  while (builder.meta(x).layout.rank() < rank)
    x = builder.call("aten.unsqueeze.default", {x, -1});
  return x;
}

/// [elements, ..] -> [rows, length, ..]: longer rows are cut.
Argument jagged_to_padded(GraphBuilder &builder, const Call &call) {
  const TensorMeta values = call.tensor("values");
  const Argument offsets = only_offsets(builder, call);
  const Sizes lengths = call.sizes("max_lengths");
  if (lengths.size() != 1 || values.layout.rank() == 0)
    call.fail("TSC-O030", call.node().target + " takes one length for its jagged dimension",
              "pass one length, and values with a dimension");
  const Argument begins = builder.call("aten.slice.Tensor", {offsets, 0, 0, -1, 1});
  const Argument ends = builder.call("aten.slice.Tensor", {offsets, 0, 1, INT64_MAX, 1});
  const Argument places = builder.call(
      kAdd, {builder.call("aten.unsqueeze.default", {begins, 1}), positions(builder, lengths[0])});
  const Argument is_there =
      builder.call("aten.lt.Tensor", {places, builder.call("aten.unsqueeze.default", {ends, 1})});
  Arguments pads(2 * (values.layout.rank() - 1), 0);
  pads.emplace_back(0);
  pads.emplace_back(1);
  // One element more, which no row has.
  const Argument room = builder.call("aten.constant_pad_nd.default", {call["values"], pads, 0});
  const Argument taken = builder.call(
      "aten.index.Tensor",
      {room,
       Arguments{builder.call(kWhere, {is_there, places, size_argument(values.layout.sizes[0])})}});
  return builder.call(kWhere, {with_rank(builder, is_there, values.layout.rank() + 1), taken,
                               call["padding_value"]});
}

/// The other way round; what a row has beyond the dense tensor is 0.
Argument padded_to_jagged(GraphBuilder &builder, const Call &call) {
  const TensorMeta dense = call.tensor("dense");
  const Argument offsets = only_offsets(builder, call);
  if (!call.has("total_L"))
    call.refuse("TSC-O035", call.node().target + " without the number of elements", "pass total_L");
  if (dense.layout.rank() < 2)
    call.fail("TSC-O030", call.node().target + " of less than two dimensions",
              "pass rows of elements");
  const Argument all = positions(builder, call.size("total_L"));
  const Argument row = builder.call(
      "aten.sub.Tensor",
      {builder.call("aten.searchsorted.Tensor", {offsets, all}, {{"right", true}}), 1});
  const Argument place =
      builder.call(kSub, {all, builder.call("aten.index.Tensor", {offsets, Arguments{row}})});
  const Argument is_there =
      builder.call("aten.lt.Tensor", {place, size_argument(dense.layout.sizes[1])});
  const Argument taken =
      builder.call("aten.index.Tensor",
                   {call["dense"], Arguments{row, builder.call(kWhere, {is_there, place, 0})}});
  return builder.call(kWhere, {with_rank(builder, is_there, dense.layout.rank() - 1), taken, 0});
}

} // namespace

void add_segments(Table &table) {
  table
      .add("_jagged_to_padded_dense_forward(Tensor values, Tensor[] offsets, SymInt[] max_lengths, "
           "float padding_value=0.0) -> Tensor")
      .decompose(jagged_to_padded);
  table
      .add("_padded_dense_to_jagged_forward(Tensor dense, Tensor[] offsets, SymInt? total_L=None) "
           "-> Tensor")
      .decompose(padded_to_jagged);
  table
      .add("segment_reduce(Tensor data, str reduce, *, Tensor? lengths=None, Tensor? indices=None, "
           "Tensor? offsets=None, int axis=0, bool unsafe=False, Scalar? initial=None) -> Tensor")
      .decompose(segment_reduce);
  table.add("nonzero_static(Tensor self, *, SymInt size, int fill_value=-1) -> Tensor")
      .decompose(nonzero_static);
}

} // namespace tsc::ops
