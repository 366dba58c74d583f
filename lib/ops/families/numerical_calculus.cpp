// Integrals by the trapezoidal rule, and derivatives by differences of the second order.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <optional>

namespace tsc::ops {
namespace {

/// Arithmetic on values of a graph under construction.
struct Calculus {
  GraphBuilder &builder;

  Argument add(const Argument &a, const Argument &b) const { return builder.call(kAdd, {a, b}); }
  Argument sub(const Argument &a, const Argument &b) const { return builder.call(kSub, {a, b}); }
  Argument mul(const Argument &a, const Argument &b) const { return builder.call(kMul, {a, b}); }
  Argument div(const Argument &a, const Argument &b) const { return builder.call(kDiv, {a, b}); }
  Argument neg(const Argument &a) const { return builder.call("aten.neg.default", {a}); }
  /// x[first:last] of dimension `dim`.
  Argument part(const Argument &x, int64_t dim, int64_t first, int64_t last = INT64_MAX) const {
    return builder.call("aten.slice.Tensor", {x, dim, first, last, 1});
  }
  Argument at(const Argument &x, int64_t dim, int64_t index) const {
    return builder.call("aten.select.int", {x, dim, index});
  }
};

bool is_by_points(const Call &call) { return call.schema().parameters[1].name == "x"; }

void refuse_bool(const Call &call) {
  if (call.tensor("y").dtype == DType::boolean ||
      (is_by_points(call) && call.tensor("x").dtype == DType::boolean))
    call.fail("TSC-O127", call.node().target + " of bool", "convert it to numbers first");
}

/// Distances between the points `x`, as many dimensions as y has.
Argument distances(GraphBuilder &builder, const Call &call, int64_t dim) {
  const TensorMeta y = call.tensor("y"), x = call.tensor("x");
  const Calculus make{builder};
  Argument points = call["x"];
  std::vector<Expr> sizes = x.layout.sizes;
  if (x.layout.rank() == 1 && y.layout.rank() > 0) {
    const Expr count = y.layout.sizes[static_cast<size_t>(dim)];
    if (!taken_equal(call, sizes[0], count))
      call.fail("TSC-O129",
                call.node().target + ": " + symbolic::print(sizes[0]) + " points for " +
                    symbolic::print(count) + " values",
                "pass as many points as values");
    std::vector<Expr> shape(y.layout.rank(), Expr(1));
    shape[static_cast<size_t>(dim)] = sizes[0];
    points = builder.call("aten.reshape.default", {points, sizes_argument(shape)});
  } else if (x.layout.rank() < y.layout.rank()) {
    sizes.insert(sizes.begin(), y.layout.rank() - x.layout.rank(), Expr(1));
    points = builder.call("aten.reshape.default", {points, sizes_argument(sizes)});
  }
  const int64_t from_end = dim - static_cast<int64_t>(y.layout.rank());
  return make.sub(make.part(points, from_end, 1), make.part(points, from_end, 0, -1));
}

int64_t dim_of(const Call &call) {
  return static_cast<int64_t>(
      existing_dim(call, call.integer("dim"), call.tensor("y").layout.rank()));
}

Argument trapezoid(GraphBuilder &builder, const Call &call) {
  refuse_bool(call);
  const TensorMeta y = call.tensor("y");
  const Calculus make{builder};
  const int64_t dim = dim_of(call);
  if (y.layout.sizes[static_cast<size_t>(dim)].is_integer(0)) {
    std::vector<Expr> sizes = y.layout.sizes;
    sizes.erase(sizes.begin() + dim);
    return builder.call("aten.full.default", {sizes_argument(sizes), 0},
                        {{"dtype", y.dtype}, {"device", y.device}});
  }
  if (!is_by_points(call)) {
    Argument total = builder.call("aten.sum.dim_IntList", {call["y"], Arguments{dim}, false});
    Argument ends = make.add(make.at(call["y"], dim, 0), make.at(call["y"], dim, -1));
    return make.mul(make.sub(total, make.mul(ends, 0.5)), call.number("dx"));
  }
  Argument pairs = make.add(make.part(call["y"], dim, 0, -1), make.part(call["y"], dim, 1));
  Argument areas = make.mul(pairs, distances(builder, call, dim));
  return make.div(
      builder.call("aten.sum.dim_IntList",
                   {areas, Arguments{dim - static_cast<int64_t>(y.layout.rank())}, false}),
      2.0);
}

Argument cumulative_trapezoid(GraphBuilder &builder, const Call &call) {
  refuse_bool(call);
  const Calculus make{builder};
  const int64_t dim = dim_of(call);
  Argument pairs = make.add(make.part(call["y"], dim, 1), make.part(call["y"], dim, 0, -1));
  const int64_t from_end = dim - static_cast<int64_t>(call.tensor("y").layout.rank());
  if (!is_by_points(call))
    return builder.call("aten.cumsum.default", {make.mul(pairs, call.number("dx") / 2), from_end});
  Argument areas = make.mul(pairs, distances(builder, call, dim));
  return make.div(builder.call("aten.cumsum.default", {areas, from_end}), 2.0);
}

/// What one dimension's points are: a distance, or their places.
struct Spacing {
  Argument value = 1;
  bool is_points = false;
};

Argument joined(GraphBuilder &builder, const Argument &first, const Argument &middle,
                const Argument &last, int64_t dim) {
  return builder.call("aten.cat.default", {Arguments{first, middle, last}, dim});
}

/// Differences over even distances; `order` of accuracy at the two ends.
Argument even_gradient(GraphBuilder &builder, const Argument &x, int64_t dim,
                       const Argument &distance, int64_t order) {
  const Calculus make{builder};
  const auto over = [&](const Argument &difference) { return make.div(difference, distance); };
  const auto one = [&](int64_t at) { return make.part(x, dim, at, at == -1 ? INT64_MAX : at + 1); };
  Argument middle = make.div(over(make.sub(make.part(x, dim, 2), make.part(x, dim, 0, -2))), 2.0);
  if (order == 1)
    return joined(builder, over(make.sub(one(1), one(0))), middle, over(make.sub(one(-1), one(-2))),
                  dim);
  const auto end = [&](double a, int64_t i, double b, int64_t j, double c, int64_t k) {
    return over(make.add(make.add(make.mul(one(i), a), make.mul(one(j), b)), make.mul(one(k), c)));
  };
  return joined(builder, end(-1.5, 0, 2, 1, -0.5, 2), middle, end(0.5, -3, -2, -2, 1.5, -1), dim);
}

/// The parabola through three points: its derivative is a sum of their values with these weights.
Argument uneven_gradient(GraphBuilder &builder, const Argument &x, int64_t dim,
                         const Argument &points, int64_t order) {
  const Calculus make{builder};
  const size_t rank = builder.meta(x).layout.rank();
  Argument steps = make.sub(make.part(points, 0, 1), make.part(points, 0, 0, -1));
  std::vector<Expr> shape(rank, Expr(1));
  shape[static_cast<size_t>(dim)] = builder.meta(points).layout.sizes[0] - Expr(2);
  const auto along = [&](const Argument &weights) {
    return builder.call("aten.reshape.default", {weights, sizes_argument(shape)});
  };
  const auto one = [&](int64_t at) { return make.part(x, dim, at, at == -1 ? INT64_MAX : at + 1); };
  const auto weighted = [&](const Argument &a, const Argument &f, const Argument &b,
                            const Argument &g, const Argument &c, const Argument &h) {
    return make.add(make.add(make.mul(a, f), make.mul(b, g)), make.mul(c, h));
  };
  Argument d1 = make.part(steps, 0, 0, -1), d2 = make.part(steps, 0, 1);
  Argument both = make.add(d1, d2);
  Argument middle =
      weighted(along(make.div(make.neg(d2), make.mul(d1, both))), make.part(x, dim, 0, -2),
               along(make.div(make.sub(d2, d1), make.mul(d1, d2))), make.part(x, dim, 1, -1),
               along(make.div(d1, make.mul(d2, both))), make.part(x, dim, 2));
  const auto step = [&](int64_t at) { return make.at(steps, 0, at); };
  if (order == 1)
    return joined(builder, make.div(make.sub(one(1), one(0)), step(0)), middle,
                  make.div(make.sub(one(-1), one(-2)), step(-1)), dim);
  Argument p = step(0), q = step(1), sum = make.add(p, q);
  Argument first = weighted(make.neg(make.div(make.add(make.mul(p, 2.0), q), make.mul(p, sum))),
                            one(0), make.div(sum, make.mul(p, q)), one(1),
                            make.neg(make.div(p, make.mul(q, sum))), one(2));
  p = step(-2), q = step(-1), sum = make.add(p, q);
  Argument last =
      weighted(make.div(q, make.mul(p, sum)), one(-3), make.neg(make.div(sum, make.mul(p, q))),
               one(-2), make.div(make.add(make.mul(q, 2.0), p), make.mul(q, sum)), one(-1));
  return joined(builder, first, middle, last, dim);
}

/// The dimensions and, for each, its spacing.
Argument gradient(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const int64_t rank = static_cast<int64_t>(self.layout.rank()), order = call.integer("edge_order");
  bool has_spacing = false;
  for (const Parameter &parameter : call.schema().parameters)
    has_spacing = has_spacing || parameter.name == "spacing";
  std::vector<int64_t> dims;
  if (!call.has("dim")) {
    for (int64_t d = 0; d < rank; ++d)
      dims.push_back(d);
  } else if (call["dim"].list()) {
    dims = call.integers("dim");
  } else {
    dims = {call.integer("dim")};
  }
  const Arguments *each = has_spacing && call.has("spacing") ? call["spacing"].list() : nullptr;
  if (order != 1 && order != 2)
    call.fail("TSC-O030", call.node().target + ": edge_order is " + std::to_string(order),
              "use 1 or 2");
  if (each && each->size() != dims.size())
    call.fail("TSC-O129",
              call.node().target + ": " + std::to_string(each->size()) + " spacings for " +
                  std::to_string(dims.size()) + " dimensions",
              "pass one a dimension");
  Arguments results;
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t dim = static_cast<int64_t>(existing_dim(call, dims[i], self.layout.rank()));
    const Expr size = self.layout.sizes[static_cast<size_t>(dim)];
    if (size.is_integer() && size.value() < order + 1)
      call.fail("TSC-O129",
                call.node().target + ": dimension " + std::to_string(dim) + " of " +
                    print_sizes(self.layout.sizes) + " has fewer than " +
                    std::to_string(order + 1) + " elements",
                "pass more elements, or edge_order 1");
    Argument spacing = 1;
    if (each)
      spacing = each->at(i);
    else if (has_spacing && call.has("spacing"))
      spacing = call["spacing"];
    const bool is_points = spacing.node() != nullptr;
    results.push_back(is_points ? uneven_gradient(builder, call["self"], dim, spacing, order)
                                : even_gradient(builder, call["self"], dim, spacing, order));
  }
  return results;
}

} // namespace

void add_numerical_calculus(Table &table) {
  for (std::string_view name : {"trapezoid", "trapz"}) {
    const std::string step = name == "trapz" ? "float dx=1." : "Scalar dx=1";
    table.add(keep_text(std::string(name) + ".x(Tensor y, Tensor x, *, int dim=-1) -> Tensor"))
        .decompose(trapezoid);
    table.add(keep_text(std::string(name) + ".dx(Tensor y, *, " + step + ", int dim=-1) -> Tensor"))
        .decompose(trapezoid);
  }
  table.add("cumulative_trapezoid.x(Tensor y, Tensor x, *, int dim=-1) -> Tensor")
      .decompose(cumulative_trapezoid);
  table.add("cumulative_trapezoid.dx(Tensor y, *, Scalar dx=1, int dim=-1) -> Tensor")
      .decompose(cumulative_trapezoid);
  for (std::string_view form :
       {"scalarint(Tensor self, *, Scalar? spacing=None, int? dim=None",
        "scalararray(Tensor self, *, Scalar spacing, int[] dim", "array(Tensor self, *, int[] dim",
        "scalarrayint(Tensor self, *, Scalar[] spacing, int? dim=None",
        "scalarrayarray(Tensor self, *, Scalar[] spacing, int[] dim",
        "tensorarrayint(Tensor self, *, Tensor[] spacing, int? dim=None",
        "tensorarray(Tensor self, *, Tensor[] spacing, int[] dim"})
    table.add(keep_text("gradient." + std::string(form) + ", int edge_order=1) -> Tensor[]"))
        .decompose(gradient);
}

} // namespace tsc::ops
