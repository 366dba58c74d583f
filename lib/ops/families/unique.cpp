// Distinct elements and histograms. Elements in order, each first of its kind marked: the running
// count of the marks numbers the kinds, and the marked places are what is picked. NaN equals
// nothing, itself included, as in PyTorch.
#include "ops/families/data_sizes.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

Argument flat(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.reshape.default", {x, Arguments{-1}});
}
Argument nothing(GraphBuilder &builder, tensor::Device device) {
  return builder.call("aten.empty.memory_format", {Arguments{0}},
                      {{"dtype", DType::i64}, {"device", device}});
}

/// Of rows [n, ..]: whether each is unlike the one before it, true of the first. [n]
Argument starts_of_runs(GraphBuilder &builder, const Argument &rows) {
  const Expr length = builder.meta(rows).layout.sizes[0];
  const Argument positions =
      builder.call("aten.arange.start_step", {0, size_argument(length), 1},
                   {{"dtype", DType::i64}, {"device", builder.meta(rows).device}});
  const Argument is_first = builder.call("aten.eq.Scalar", {positions, 0});
  const Argument before =
      builder.call("aten.clamp_min.default", {builder.call("aten.sub.Tensor", {positions, 1}), 0});
  const Argument last = builder.call("aten.index.Tensor", {rows, Arguments{before}});
  Argument differs = builder.call("aten.ne.Tensor", {rows, last});
  Arguments dims;
  for (size_t dim = 1; dim < builder.meta(rows).layout.rank(); ++dim)
    dims.emplace_back(static_cast<int64_t>(dim));
  if (!dims.empty())
    differs = builder.call("aten.any.dims", {differs, dims, false});
  return builder.call("aten.logical_or.default", {is_first, differs});
}

/// The runs of equal rows: where each begins [count], of which run each row is [n], how many rows
/// each has [count].
struct Runs {
  Argument places, numbers, lengths;
};
Runs runs_of(GraphBuilder &builder, const Argument &rows, Expr count) {
  const Argument starts = starts_of_runs(builder, rows);
  Runs runs;
  runs.places = true_places(builder, starts, count);
  runs.numbers =
      builder.call("aten.sub.Tensor",
                   {builder.call("aten.cumsum.default", {starts, 0}, {{"dtype", DType::i64}}), 1});
  const Argument all = builder.call("aten.arange.start_step", {0, size_argument(count), 1},
                                    {{"dtype", DType::i64}, {"device", builder.meta(rows).device}});
  const Argument ends =
      builder.call("aten.searchsorted.Tensor", {runs.numbers, all}, {{"right", true}});
  runs.lengths = builder.call("aten.sub.Tensor", {ends, runs.places});
  return runs;
}

/// Values that are in the order `order` of what they belong to, where they belong.
Argument back_in_place(GraphBuilder &builder, const Argument &order, const Argument &values) {
  return builder.call("aten.scatter.src", {values, 0, order, values});
}

Argument unique(GraphBuilder &builder, const Call &call, bool has_counts) {
  const TensorMeta self = call.tensor("self");
  const Argument sorted =
      builder.call("aten.sort.stable", {flat(builder, call["self"])}, {{"stable", true}});
  const Argument values = builder.item(sorted, 0), order = builder.item(sorted, 1);
  const Runs runs = runs_of(builder, values, data_size(call, 0, 0));
  Arguments results = {builder.call("aten.index.Tensor", {values, Arguments{runs.places}}),
                       nothing(builder, self.device)};
  if (call.boolean("return_inverse"))
    results[1] = builder.call("aten.reshape.default", {back_in_place(builder, order, runs.numbers),
                                                       sizes_argument(self.layout.sizes)});
  if (has_counts)
    results.push_back(call.boolean("return_counts") ? runs.lengths : nothing(builder, self.device));
  return results;
}

/// Dimension `dim` in front, the others as one behind it.
Argument as_rows(GraphBuilder &builder, const Argument &x, size_t dim) {
  const Sizes sizes = builder.meta(x).layout.sizes;
  Arguments order = {static_cast<int64_t>(dim)};
  Expr elements = 1;
  for (size_t i = 0; i < sizes.size(); ++i)
    if (i != dim) {
      order.emplace_back(static_cast<int64_t>(i));
      elements *= sizes[i];
    }
  return builder.call("aten.reshape.default", {builder.call("aten.permute.default", {x, order}),
                                               sizes_argument({sizes[dim], elements})});
}

/// Runs of equal slices along `dim`, their numbers and lengths even if nobody asks, in order
/// `order` of the slices (none: as they are).
Argument unique_slices(GraphBuilder &builder, const Call &call, size_t dim,
                       const std::optional<Argument> &order) {
  Argument slices = call["self"];
  const auto ordered = [&](const Argument &places) {
    return builder.call("aten.index_select.default", {slices, static_cast<int64_t>(dim), places});
  };
  if (order)
    slices = ordered(*order);
  const Runs runs = runs_of(builder, as_rows(builder, slices, dim), data_size(call, 0, dim));
  return Arguments{ordered(runs.places),
                   order ? back_in_place(builder, *order, runs.numbers) : runs.numbers,
                   runs.lengths};
}

Argument unique_consecutive(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  if (call.has("dim"))
    return unique_slices(builder, call, existing_dim(call, call.integer("dim"), self.layout.rank()),
                         std::nullopt);
  const Argument values = flat(builder, call["self"]);
  const Runs runs = runs_of(builder, values, data_size(call, 0, 0));
  Arguments results = {builder.call("aten.index.Tensor", {values, Arguments{runs.places}}),
                       nothing(builder, self.device), nothing(builder, self.device)};
  if (call.boolean("return_inverse"))
    results[1] =
        builder.call("aten.reshape.default", {runs.numbers, sizes_argument(self.layout.sizes)});
  if (call.boolean("return_counts"))
    results[2] = runs.lengths;
  return results;
}

/// Slices in lexicographic order: sorted by the last element first, stably.
Argument unique_dim(GraphBuilder &builder, const Call &call) {
  constexpr int64_t kMostColumns = 64; // each is a sort
  const TensorMeta self = call.tensor("self");
  const size_t dim = existing_dim(call, call.integer("dim"), self.layout.rank());
  const Argument rows = as_rows(builder, call["self"], dim);
  const Expr columns = builder.meta(rows).layout.sizes[1];
  if (!columns.is_integer() || columns.value() > kMostColumns)
    call.refuse("TSC-O103",
                call.node().target + " of slices of " + symbolic::print(columns) +
                    " elements: those of up to " + std::to_string(kMostColumns) + " are sorted",
                "make one number of each slice, and call unique without dim");
  Argument order =
      builder.call("aten.arange.start_step", {0, size_argument(self.layout.sizes[dim]), 1},
                   {{"dtype", DType::i64}, {"device", self.device}});
  for (int64_t column = columns.value(); column-- > 0;) {
    const Argument key =
        builder.call("aten.index.Tensor",
                     {builder.call("aten.select.int", {rows, 1, column}), Arguments{order}});
    const Argument sorted = builder.call("aten.sort.stable", {key}, {{"stable", true}});
    order = builder.call("aten.index.Tensor", {order, Arguments{builder.item(sorted, 1)}});
  }
  return unique_slices(builder, call, dim, order);
}

/// Counts of elements in `bins` parts of [min, max], the last closed; of the elements' own range
/// where both are equal. The places are computed in self's dtype.
Argument histc(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const int64_t bins = call.integer("bins");
  if (bins <= 0)
    call.fail("TSC-O031", call.node().target + ": " + std::to_string(bins) + " bins",
              "ask for one at least");
  const double low = call.number("min"), high = call.number("max");
  if (!(low <= high) || std::isinf(low) || std::isinf(high))
    call.fail("TSC-O031", call.node().target + ": a range that is none",
              "pass min and max in order, both finite");
  const DType dtype = tensor::is_floating(self.dtype) ? self.dtype : DType::f64;
  const Argument x = convert(builder, flat(builder, call["self"]), dtype);
  const auto number = [&](double value) {
    return builder.call("aten.full.default", {Arguments{}, value},
                        {{"dtype", dtype}, {"device", self.device}});
  };
  Argument first = number(low), last = number(high);
  if (low == high && !symbolic::numel(self.layout.sizes).is_integer(0)) {
    first = builder.call("aten.amin.default", {x, Arguments{0}, false});
    last = builder.call("aten.amax.default", {x, Arguments{0}, false});
  }
  if (low == high) { // of one value: one to either side
    const Argument same = builder.call("aten.eq.Tensor", {first, last});
    const Argument below = builder.call("aten.sub.Tensor", {first, 1});
    const Argument above = builder.call(kAdd, {last, 1});
    first = builder.call(kWhere, {same, below, first});
    last = builder.call(kWhere, {same, above, last});
  }
  const Argument inside =
      builder.call("aten.logical_and.default", {builder.call("aten.ge.Tensor", {x, first}),
                                                builder.call("aten.le.Tensor", {x, last})});
  const Argument offset = builder.call(
      "aten.mul.Tensor", {builder.call("aten.sub.Tensor", {x, first}), static_cast<double>(bins)});
  const Argument part =
      builder.call(kDiv, {offset, builder.call("aten.sub.Tensor", {last, first})});
  Argument place = convert(builder, builder.call(kWhere, {inside, part, 0.0}), DType::i64);
  place = builder.call("aten.clamp_max.default", {place, bins - 1});
  place = builder.call(kWhere, {inside, place, bins}); // a place behind, for what does not count
  const Argument zeros = builder.call("aten.full.default", {Arguments{bins + 1}, 0},
                                      {{"dtype", DType::i64}, {"device", self.device}});
  const Argument ones = builder.call("aten.full.default", {Arguments{}, 1},
                                     {{"dtype", DType::i64}, {"device", self.device}});
  const Argument counts =
      builder.call("aten.index_put.default", {zeros, Arguments{place}, ones, true});
  return convert(builder, builder.call("aten.slice.Tensor", {counts, 0, 0, bins, 1}), self.dtype);
}

} // namespace

void add_unique(Table &table) {
  table.add("_unique(Tensor self, bool sorted=True, bool return_inverse=False) -> (Tensor, Tensor)")
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return unique(builder, call, false); });
  table
      .add("_unique2(Tensor self, bool sorted=True, bool return_inverse=False, bool "
           "return_counts=False) -> (Tensor, Tensor, Tensor)")
      .decompose(
          [](GraphBuilder &builder, const Call &call) { return unique(builder, call, true); });
  table
      .add("unique_dim(Tensor self, int dim, bool sorted=True, bool return_inverse=False, bool "
           "return_counts=False) -> (Tensor, Tensor, Tensor)")
      .decompose(unique_dim);
  table
      .add("unique_consecutive(Tensor self, bool return_inverse=False, bool return_counts=False, "
           "int? dim=None) -> (Tensor, Tensor, Tensor)")
      .decompose(unique_consecutive);
  table.add("histc(Tensor self, int bins=100, Scalar min=0, Scalar max=0) -> Tensor")
      .decompose(histc);
}

} // namespace tsc::ops
