// histogram and histogramdd: how many points fall into each cell of a grid of bins. A bin holds its
// lower edge, and the last one its upper edge, too; points outside, and NaN, do not count.
#include "ops/families/assertions.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

/// Points [count, dims] and what each counts for (none: one).
struct Points {
  Argument values, weights;
  std::vector<Expr> leading; // the sizes before points were made one dimension
};

Points points_of(GraphBuilder &builder, const Call &call, bool is_flat) {
  const TensorMeta self = call.tensor("self");
  if (!tensor::is_floating(self.dtype))
    call.fail("TSC-O127", call.node().target + " of " + std::string(tensor::torch_name(self.dtype)),
              "convert it to a floating dtype first");
  Points points;
  points.leading = self.layout.sizes;
  Expr dims = 1;
  if (!is_flat) {
    if (points.leading.size() < 2)
      call.fail("TSC-O128",
                call.node().target + ": 'self' has " + std::to_string(points.leading.size()) +
                    " dimensions, at least 2 are needed",
                "pass points [count, dimensions]");
    dims = points.leading.back();
    points.leading.pop_back();
  }
  const Expr count = symbolic::numel(points.leading);
  points.values = builder.call(
      "aten.reshape.default", {call["self"], Arguments{size_argument(count), size_argument(dims)}});
  if (const TensorMeta *weight = call.optional_tensor("weight")) {
    bool fits = weight->layout.rank() == points.leading.size();
    for (size_t i = 0; fits && i < points.leading.size(); ++i)
      fits = taken_equal(call, weight->layout.sizes[i], points.leading[i]);
    if (!fits || weight->dtype != self.dtype)
      call.fail("TSC-O031",
                call.node().target + ": weights " + print_sizes(weight->layout.sizes) +
                    " for points " + print_sizes(points.leading),
                "pass one weight a point, in the dtype of the points");
    points.weights =
        builder.call("aten.reshape.default", {call["weight"], Arguments{size_argument(count)}});
  }
  return points;
}

/// The edges of `bins` equal parts of what is asked for or, without a range, of the points' own;
/// half to either side where that is one value.
Argument equal_edges(GraphBuilder &builder, const Call &call, const Points &points, size_t dim,
                     int64_t bins) {
  const TensorMeta self = builder.meta(points.values);
  if (bins <= 0)
    call.fail("TSC-O031", call.node().target + ": " + std::to_string(bins) + " bins",
              "ask for one at least");
  const std::vector<Argument> *range = call.has("range") ? call["range"].list() : nullptr;
  const DType wide = DType::f64;
  const auto number = [&](double value) {
    return builder.call("aten.full.default", {Arguments{}, value},
                        {{"dtype", wide}, {"device", self.device}});
  };
  Argument low, high;
  if (range) {
    const auto at = [&](size_t i) {
      if (i >= range->size())
        call.fail("TSC-O031",
                  call.node().target + ": a range of " + std::to_string(range->size()) + " numbers",
                  "pass two a dimension");
      const double *real = std::get_if<double>(&(*range)[i].value);
      const int64_t *integer = std::get_if<int64_t>(&(*range)[i].value);
      return real ? *real : integer ? static_cast<double>(*integer) : 0.0;
    };
    double first = at(2 * dim), last = at(2 * dim + 1);
    if (!(first <= last) || first - first != 0 || last - last != 0)
      call.fail("TSC-O031", call.node().target + ": a range that is none",
                "pass two finite numbers in order");
    if (first == last) {
      first -= 0.5;
      last += 0.5;
    }
    low = number(first);
    high = number(last);
  } else if (symbolic::numel(self.layout.sizes).is_integer(0)) {
    low = number(0);
    high = number(1);
  } else {
    const Argument own =
        builder.call("aten.select.int", {points.values, 1, static_cast<int64_t>(dim)});
    const Argument x = convert(builder, own, wide);
    low = builder.call("aten.amin.default", {x, Arguments{0}, false});
    high = builder.call("aten.amax.default", {x, Arguments{0}, false});
    const Argument span = builder.call(kSub, {high, low});
    assert_condition(builder, builder.call("aten.isfinite.default", {span}),
                     call.node().target + ": the range of the points is not finite");
    const Argument half =
        builder.call(kWhere, {builder.call("aten.eq.Tensor", {high, low}), 0.5, 0.0});
    const Argument half_wide = convert(builder, half, wide);
    low = builder.call(kSub, {low, half_wide});
    high = builder.call(kAdd, {high, half_wide});
  }
  return builder.call("aten.linspace.Tensor_Tensor", {low, high, bins + 1},
                      {{"dtype", self.dtype}, {"device", self.device}});
}

/// The counts of a grid whose dimension i has `edges[i]`, of the dtype of the points.
Argument counted(GraphBuilder &builder, const Call &call, const Points &points,
                 const Arguments &edges) {
  const TensorMeta self = builder.meta(points.values);
  const Expr count = self.layout.sizes[0];
  Argument cell, inside;
  std::vector<Expr> bins;
  Expr cells = 1;
  for (size_t dim = 0; dim < edges.size(); ++dim) {
    const Expr size = builder.meta(edges[dim]).layout.sizes[0] - Expr(1);
    bins.push_back(size);
    cells *= size;
    const Argument x =
        builder.call("aten.select.int", {points.values, 1, static_cast<int64_t>(dim)});
    const Argument first = builder.call("aten.select.int", {edges[dim], 0, 0}),
                   last = builder.call("aten.select.int", {edges[dim], 0, -1});
    const Argument within =
        builder.call("aten.logical_and.default", {builder.call("aten.ge.Tensor", {x, first}),
                                                  builder.call("aten.le.Tensor", {x, last})});
    Argument place = builder.call("aten.searchsorted.Tensor", {edges[dim], x}, {{"right", true}});
    place = builder.call(kSub, {place, 1});
    place = builder.call("aten.minimum.default", {place, size_argument(size - Expr(1))});
    inside = inside.is_none() ? within : builder.call("aten.logical_and.default", {inside, within});
    cell = cell.is_none()
               ? place
               : builder.call(kAdd, {builder.call(kMul, {cell, size_argument(size)}), place});
  }
  if (cell.is_none()) // no dimensions: nothing is outside
    call.fail("TSC-O031", call.node().target + " of points without dimensions", "pass some");
  cell = builder.call(kWhere, {inside, cell, size_argument(cells)}); // behind: does not count
  const DType sums = points.weights.is_none() ? DType::i64 : accumulation_dtype(self.dtype);
  const Argument zeros =
      builder.call("aten.full.default", {Arguments{size_argument(cells + Expr(1))}, 0},
                   {{"dtype", sums}, {"device", self.device}});
  const Argument each =
      points.weights.is_none()
          ? builder.call("aten.full.default", {Arguments{size_argument(count)}, 1},
                         {{"dtype", sums}, {"device", self.device}})
          : convert(builder, points.weights, sums);
  Argument result = builder.call("aten.index_put.default", {zeros, Arguments{cell}, each, true});
  result = builder.call("aten.slice.Tensor", {result, 0, 0, size_argument(cells), 1});
  result = convert(builder, result, self.dtype);
  result = builder.call("aten.reshape.default", {result, sizes_argument(bins)});
  if (!call.boolean("density"))
    return result;
  result = builder.call(kDiv, {result, builder.call("aten.sum.default", {result})});
  for (size_t dim = 0; dim < edges.size(); ++dim) {
    Argument widths = builder.call("aten.diff.default", {edges[dim]});
    for (size_t later = dim + 1; later < edges.size(); ++later)
      widths = builder.call("aten.unsqueeze.default", {widths, -1});
    result = builder.call(kDiv, {result, widths});
  }
  return result;
}

Arguments equal_edges_of_all(GraphBuilder &builder, const Call &call, const Points &points) {
  const Expr dims = builder.meta(points.values).layout.sizes[1];
  const bool one_number = std::holds_alternative<int64_t>(call["bins"].value);
  const std::vector<int64_t> given = one_number ? std::vector<int64_t>{} : call.integers("bins");
  if (!dims.is_integer() || (!one_number && given.size() != static_cast<size_t>(dims.value())))
    call.fail("TSC-O031",
              call.node().target + ": numbers of bins for " + std::to_string(given.size()) +
                  " of " + symbolic::print(dims) + " dimensions",
              "pass one a dimension");
  Arguments edges;
  for (size_t dim = 0; dim < static_cast<size_t>(dims.value()); ++dim)
    edges.push_back(
        equal_edges(builder, call, points, dim, one_number ? call.integer("bins") : given[dim]));
  return edges;
}

/// Edges that the caller gives, one tensor a dimension.
Arguments given_edges(GraphBuilder &builder, const Call &call, const Points &points,
                      const Arguments &edges) {
  const TensorMeta self = builder.meta(points.values);
  if (!self.layout.sizes[1].is_integer(static_cast<int64_t>(edges.size())))
    call.fail("TSC-O031",
              call.node().target + ": edges of " + std::to_string(edges.size()) +
                  " dimensions of " + symbolic::print(self.layout.sizes[1]),
              "pass edges for every dimension");
  for (const Argument &each : edges) {
    const TensorMeta meta = builder.meta(each);
    if (meta.layout.rank() != 1 || meta.layout.sizes[0].is_integer(0) || meta.dtype != self.dtype)
      call.fail("TSC-O031",
                call.node().target + ": edges " + print_sizes(meta.layout.sizes) + " of " +
                    std::string(tensor::torch_name(meta.dtype)),
                "pass a vector of edges in the dtype of the points");
  }
  return edges;
}

enum class Edges : uint8_t { equal, given };

Decomposition histogram(Edges kind) {
  return [kind](GraphBuilder &builder, const Call &call) -> Argument {
    const Points points = points_of(builder, call, true);
    const Arguments edges =
        kind == Edges::equal
            ? Arguments{equal_edges(builder, call, points, 0, call.integer("bins"))}
            : given_edges(builder, call, points, Arguments{call["bins"]});
    return Arguments{counted(builder, call, points, edges), edges[0]};
  };
}

Decomposition histogram_of_points(Edges kind) {
  return [kind](GraphBuilder &builder, const Call &call) -> Argument {
    const Points points = points_of(builder, call, false);
    const Arguments edges = kind == Edges::equal
                                ? equal_edges_of_all(builder, call, points)
                                : given_edges(builder, call, points, *call["bins"].list());
    return Arguments{counted(builder, call, points, edges), edges};
  };
}

} // namespace

void add_histograms(Table &table) {
  const std::string rest = "Tensor? weight=None, bool density=False) -> (Tensor hist, Tensor",
                    range = "float[]? range=None, ";
  table
      .add(keep_text("histogram.bin_ct(Tensor self, int bins=100, *, " + range + rest +
                     " bin_edges)"))
      .decompose(histogram(Edges::equal));
  table.add(keep_text("histogram.bins_tensor(Tensor self, Tensor bins, *, " + rest + " bin_edges)"))
      .decompose(histogram(Edges::given));
  for (const std::string_view overload :
       {"histogramdd(Tensor self, int[] bins, ", "histogramdd.int_bins(Tensor self, int bins, "})
    table.add(keep_text(std::string(overload) + range + rest + "[] bin_edges)"))
        .decompose(histogram_of_points(Edges::equal));
  table
      .add(keep_text("histogramdd.TensorList_bins(Tensor self, Tensor[] bins, " + range + rest +
                     "[] bin_edges)"))
      .decompose(histogram_of_points(Edges::given));
  const std::string starred = "*, Tensor? weight=None, bool density=False) -> ";
  table
      .add(keep_text("_histogramdd_bin_edges(Tensor self, int[] bins, *, " + range +
                     "Tensor? weight=None, bool density=False) -> Tensor[]"))
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        return equal_edges_of_all(builder, call, points_of(builder, call, false));
      });
  table
      .add(keep_text("_histogramdd_from_bin_cts(Tensor self, int[] bins, *, " + range +
                     "Tensor? weight=None, bool density=False) -> Tensor"))
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        return histogram_of_points(Edges::equal)(builder, call).list()->front();
      });
  table
      .add(keep_text("_histogramdd_from_bin_tensors(Tensor self, Tensor[] bins, " + starred +
                     "Tensor"))
      .decompose([](GraphBuilder &builder, const Call &call) -> Argument {
        return histogram_of_points(Edges::given)(builder, call).list()->front();
      });
}

} // namespace tsc::ops
