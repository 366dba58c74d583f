// Norms by other names, distances and similarities.
#include "ops/table/complex_calls.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {
namespace {

Argument vector_norm(GraphBuilder &builder, const Argument &x, const Argument &order,
                     const Argument &dims, bool keep) {
  return builder.call("aten.linalg_vector_norm.default", {x, order, dims, keep});
}

/// The norm of the difference along the last dimension; `eps` is added to it first.
Argument pairwise_distance(GraphBuilder &builder, const Call &call) {
  DType dtype = part_dtype(promote_operands(elementwise_operands(call, {"x1", "x2", "eps"})));
  Argument first = widen(builder, call["x1"]);
  Argument difference = builder.call(kSub, {first, widen(builder, call["x2"])});
  difference = builder.call(kAdd, {difference, call["eps"]});
  Argument norm =
      vector_norm(builder, difference, call["p"], Arguments{-1}, call.boolean("keepdim"));
  return convert(builder, norm, dtype);
}

/// Whether distances are made of a product, as in PyTorch where there are more than 25 rows: here
/// only of rows so long that the product is what takes time, since differences are more accurate.
/// `mode`: 1 asks for it, 2 forbids it.
bool multiplies(const TensorMeta &first, const TensorMeta &second, int64_t mode) {
  constexpr int64_t kRows = 25, kLeastWidth = 32;
  const auto size = [](const TensorMeta &x, size_t from_end) {
    return x.layout.sizes[x.layout.rank() - from_end].as_integer().value_or(0);
  };
  const bool is_float = first.dtype == DType::f32 || first.dtype == DType::f64;
  return is_float && first.dtype == second.dtype && mode != 2 &&
         std::max(size(first, 2), size(second, 2)) > kRows && size(first, 1) >= kLeastWidth;
}
/// The root of |x|^2 + |y|^2 - 2 x y.
Argument distances_by_product(GraphBuilder &builder, const Call &call) {
  const auto squares = [&](std::string_view parameter) {
    const Argument square = builder.call(kMul, {call[parameter], call[parameter]});
    return builder.call("aten.sum.dim_IntList", {square, Arguments{-1}, true});
  };
  const auto turned = [&](const Argument &x) {
    return builder.call("aten.transpose.int", {x, -1, -2});
  };
  const Argument product = builder.call("aten.matmul.default", {call["x1"], turned(call["x2"])});
  const Argument sum = builder.call(kAdd, {squares("x1"), turned(squares("x2"))});
  const Argument twice = builder.call(kMul, {product, 2.0});
  const Argument square =
      builder.call("aten.clamp_min.default", {builder.call(kSub, {sum, twice}), 0.0});
  return builder.call("aten.sqrt.default", {square});
}

/// The distances of every row of x1 [.., p, m] to every row of x2 [.., r, m].
Argument distances_of_rows(GraphBuilder &builder, const Call &call) {
  const TensorMeta first = call.tensor("x1"), second = call.tensor("x2");
  if (first.layout.rank() < 2 || second.layout.rank() < 2)
    call.fail("TSC-O035", call.node().target + " needs 2 or more dimensions",
              "pass [.., rows, columns]");
  bool named_order = false;
  for (const Parameter &parameter : call.schema().parameters)
    named_order = named_order || parameter.name == "p";
  const double order = named_order ? call.number("p") : 2.0;
  const int64_t mode = named_order && call.has("compute_mode") ? call.integer("compute_mode") : 0;
  // Of rows to themselves distances of 0 would be roots of what products round off.
  const graph::NodeRef *one = call["x1"].node(), *other = call["x2"].node();
  const bool are_same = one != nullptr && other != nullptr && one->id == other->id;
  if (order == 2.0 && !are_same && multiplies(first, second, mode))
    return convert(builder, distances_by_product(builder, call), first.dtype);
  Argument rows = builder.call("aten.unsqueeze.default", {widen(builder, call["x1"]), -2});
  Argument columns = builder.call("aten.unsqueeze.default", {widen(builder, call["x2"]), -3});
  Argument difference = builder.call(kSub, {rows, columns});
  Argument norm = vector_norm(builder, difference, named_order ? call["p"] : Argument(2.0),
                              Arguments{-1}, false);
  return convert(builder, norm, first.dtype);
}

/// sum(x / max(|x|, eps) * y / max(|y|, eps))
Argument cosine_similarity(GraphBuilder &builder, const Call &call) {
  DType dtype = promote_operands(elementwise_operands(call, {"x1", "x2"}));
  std::vector<Expr> sizes =
      broadcast(call, {call.tensor("x1").layout.sizes, call.tensor("x2").layout.sizes});
  auto unit = [&](std::string_view parameter) { // of what it is after broadcasting
    Argument whole = builder.call("aten.expand.default", {call[parameter], sizes_argument(sizes)});
    Argument x = widen(builder, convert(builder, whole, dtype));
    Argument norm = vector_norm(builder, x, 2, Arguments{call["dim"]}, true);
    Argument length = builder.call("aten.maximum.default", {norm, call["eps"]});
    return builder.call(kDiv, {x, length});
  };
  int64_t dim = static_cast<int64_t>(normalize_dim(call, call.integer("dim"), sizes.size()));
  Argument first = unit("x1");
  Argument product = builder.call(kMul, {first, unit("x2")});
  Argument sum = builder.call("aten.sum.dim_IntList", {product, Arguments{dim}, false});
  return convert(builder, sum, dtype);
}

/// Slices along `dim` whose norm is above the limit are scaled down to it.
Argument renorm(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  size_t rank = self.layout.rank(), kept = normalize_dim(call, call.integer("dim"), rank);
  std::vector<size_t> dims;
  for (size_t i = 0; i < rank; ++i)
    if (i != kept)
      dims.push_back(i);
  Argument x = widen(builder, call["self"]);
  Argument norm = vector_norm(builder, x, call["p"], ints_argument(dims), true);
  Argument large = builder.call("aten.gt.Tensor", {norm, call["maxnorm"]});
  Argument length = builder.call(kAdd, {norm, 1e-7});
  Argument factor = builder.call(kDiv, {call["maxnorm"], length});
  factor = builder.call(kWhere, {large, factor, 1.0});
  return convert(builder, builder.call(kMul, {x, factor}), self.dtype);
}

Argument optional_dims(const Call &call) {
  if (!call.has("dim"))
    return Arguments{};
  return call["dim"].list() ? call["dim"] : Arguments{call["dim"]};
}

Argument typed(GraphBuilder &builder, const Call &call, const Argument &x) {
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "dtype")
      if (std::optional<DType> dtype = call.dtype("dtype"))
        return convert(builder, x, *dtype);
  return x;
}

/// The largest (order 2), smallest (-2) or the sum (0) of the singular values of the matrices that
/// lie along two dimensions.
Argument norm_of_singular_values(GraphBuilder &builder, const Call &call, const Argument &self,
                                 double order, const Arguments &dims, bool keep) {
  const size_t rank = builder.meta(self).layout.rank();
  const size_t rows = normalize_dim(call, std::get<int64_t>(dims[0].value), rank);
  const size_t columns = normalize_dim(call, std::get<int64_t>(dims[1].value), rank);
  if (rows == columns)
    call.fail("TSC-O096", call.node().target + " of one dimension twice", "name two dimensions");
  std::vector<size_t> dimensions;
  for (size_t i = 0; i < rank; ++i)
    if (i != rows && i != columns)
      dimensions.push_back(i);
  dimensions.insert(dimensions.end(), {rows, columns});
  const Argument matrices = builder.call("aten.permute.default", {self, ints_argument(dimensions)});
  const Argument values = builder.call("aten.linalg_svdvals.default", {matrices});
  // Of no singular values the largest is 0, as their sum is.
  const bool none = symbolic::minimum(builder.meta(matrices).layout.sizes[rank - 2],
                                      builder.meta(matrices).layout.sizes[rank - 1])
                        .is_integer(0);
  Argument norm = order == 0 || (order > 0 && none)
                      ? builder.call("aten.sum.dim_IntList", {values, Arguments{-1}, false})
                      : builder.call(order > 0 ? "aten.amax.default" : "aten.amin.default",
                                     {values, Arguments{-1}, false});
  if (keep)
    for (const size_t dim : {std::min(rows, columns), std::max(rows, columns)})
      norm = builder.call("aten.unsqueeze.default", {norm, static_cast<int64_t>(dim)});
  return norm;
}

/// A matrix norm over two dimensions: 1 and inf are the largest sums of columns and rows, "fro" the
/// root of the sum of squares.
Argument matrix_norm(GraphBuilder &builder, const Call &call, const Argument &self,
                     const Argument &order, const Arguments &dims, bool keep) {
  const std::string *name = std::get_if<std::string>(&order.value);
  if (name && *name == "fro")
    return vector_norm(builder, self, 2, dims, keep);
  double number = 0;
  if (const double *real = std::get_if<double>(&order.value))
    number = *real;
  else if (const int64_t *integer = std::get_if<int64_t>(&order.value))
    number = static_cast<double>(*integer);
  const bool is_known =
      name ? *name == "nuc" : std::abs(number) == 1 || std::abs(number) == 2 || std::isinf(number);
  if (!is_known || dims.size() != 2)
    call.fail("TSC-O096", call.node().target + ": there is no matrix norm of this order",
              "use two dimensions and the order 'fro', 'nuc', 1, -1, 2, -2, inf or -inf");
  if (name || std::abs(number) == 2)
    return norm_of_singular_values(builder, call, self, name ? 0 : number, dims, keep);
  size_t rank = builder.meta(self).layout.rank();
  size_t rows = normalize_dim(call, std::get<int64_t>(dims[0].value), rank);
  size_t columns = normalize_dim(call, std::get<int64_t>(dims[1].value), rank);
  size_t summed = std::isinf(number) ? columns : rows,
         compared = std::isinf(number) ? rows : columns;
  Argument sums = vector_norm(builder, self, 1, ints_argument({summed}), true);
  Argument extreme = builder.call(number > 0 ? "aten.amax.default" : "aten.amin.default",
                                  {sums, ints_argument({compared}), true});
  if (keep)
    return extreme;
  return builder.call("aten.squeeze.dims", {extreme, ints_argument({rows, columns})});
}

/// linalg.norm: a vector norm where no order, no dimension or one dimension is given.
Argument linalg_norm(GraphBuilder &builder, const Call &call) {
  Argument self = typed(builder, call, call["self"]);
  Argument dims = optional_dims(call);
  bool keep = call.boolean("keepdim");
  if (!call.has("ord"))
    return vector_norm(builder, self, 2, dims, keep);
  size_t rank = call.tensor("self").layout.rank();
  if (dims.list()->size() == 1 || (dims.list()->empty() && rank == 1))
    return vector_norm(builder, self, call["ord"], dims, keep);
  Arguments matrix = dims.list()->empty() ? Arguments{0, 1} : *dims.list();
  return matrix_norm(builder, call, self, call["ord"], matrix, keep);
}

void add_norm_names(Table &table) {
  auto norm = [](GraphBuilder &builder, const Call &call) {
    bool has_dim = false;
    for (const Parameter &parameter : call.schema().parameters)
      has_dim = has_dim || parameter.name == "dim";
    Argument order = call.has("p") ? call["p"] : Argument(2);
    return vector_norm(builder, typed(builder, call, call["self"]), order,
                       has_dim ? optional_dims(call) : Argument(Arguments{}),
                       has_dim && call.boolean("keepdim"));
  };
  table
      .add("norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, *, "
           "ScalarType dtype) -> Tensor")
      .decompose(norm);
  table.add("norm.ScalarOpt_dtype(Tensor self, Scalar? p, *, ScalarType dtype) -> Tensor")
      .decompose(norm);
  table.add("native_norm(Tensor self, Scalar p=2) -> Tensor").decompose(norm);
  table
      .add("native_norm.ScalarOpt_dim_dtype(Tensor self, Scalar? p, int[1] dim, bool keepdim, "
           "ScalarType? dtype) -> Tensor")
      .decompose(norm);
  table.add("frobenius_norm.dim(Tensor self, int[1] dim, bool keepdim=False) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return vector_norm(builder, call["self"], 2, optional_dims(call), call.boolean("keepdim"));
      });
  for (const char *schema : {"nuclear_norm(Tensor self, bool keepdim=False) -> Tensor",
                             "nuclear_norm.dim(Tensor self, int[2] dim, bool keepdim=False) -> "
                             "Tensor"})
    table.add(schema).decompose([](GraphBuilder &builder, const Call &call) {
      const bool has_dim = call.schema().parameters[1].name == "dim";
      return matrix_norm(builder, call, call["self"], Argument(std::string("nuc")),
                         has_dim ? *call["dim"].list() : Arguments{-2, -1},
                         call.boolean("keepdim"));
    });
  for (std::string_view order :
       {"(Tensor self, Scalar? ord=None, ", ".ord_str(Tensor self, str ord, "})
    table
        .add(keep_text("linalg_norm" + std::string(order) +
                       "int[1]? dim=None, bool keepdim=False, *, ScalarType? dtype=None) -> "
                       "Tensor"))
        .decompose(linalg_norm);
  for (std::string_view order :
       {"(Tensor self, Scalar ord, ", ".str_ord(Tensor self, str ord='fro', "})
    table
        .add(keep_text("linalg_matrix_norm" + std::string(order) +
                       "int[] dim=[-2,-1], bool keepdim=False, *, ScalarType? dtype=None) -> "
                       "Tensor"))
        .decompose([](GraphBuilder &builder, const Call &call) {
          return matrix_norm(builder, call, typed(builder, call, call["self"]), call["ord"],
                             *call["dim"].list(), call.boolean("keepdim"));
        });
}

} // namespace

void add_distances(Table &table) {
  add_norm_names(table);
  table
      .add("pairwise_distance(Tensor x1, Tensor x2, float p=2.0, float eps=1e-06, bool "
           "keepdim=False) -> Tensor")
      .decompose(pairwise_distance);
  table.add("cosine_similarity(Tensor x1, Tensor x2, int dim=1, float eps=1e-08) -> Tensor")
      .decompose(cosine_similarity);
  table.add("cdist(Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None) -> Tensor")
      .decompose(distances_of_rows);
  table.add("_cdist_forward(Tensor x1, Tensor x2, float p, int? compute_mode) -> Tensor")
      .decompose(distances_of_rows);
  table.add("_euclidean_dist(Tensor x1, Tensor x2) -> Tensor").decompose(distances_of_rows);
  table.add("dist(Tensor self, Tensor other, Scalar p=2) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const DType dtype =
            part_dtype(promote_operands(elementwise_operands(call, {"self", "other"})));
        Argument self = widen(builder, call["self"]);
        Argument difference = builder.call(kSub, {self, widen(builder, call["other"])});
        Argument norm = vector_norm(builder, difference, call["p"], Arguments{}, false);
        return convert(builder, norm, dtype);
      });
  table.add_with_in_place("renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor")
      .decompose(contiguously(renorm));
}

} // namespace tsc::ops
