// Backward forms of bags of embeddings and of distances between rows.
#include "ops/families/checks.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <cmath>

namespace tsc::ops {
namespace {

constexpr int64_t kMean = 1, kMax = 2;

/// Each index's bag: as the forward pass noted it, or from where bags begin.
Term bags_of(GraphBuilder &builder, const Call &call) {
  const Term noted = given(builder, call, "offset2bag");
  const TensorMeta indices = call.tensor("indices");
  bool has_offsets = false;
  for (const Parameter &parameter : call.schema().parameters)
    has_offsets = has_offsets || parameter.name == "offsets";
  if (!has_offsets || !noted.meta().layout.sizes.at(0).is_integer(0))
    return noted;
  const Term place = counting(builder, indices.layout.sizes[0], indices.device);
  return given(builder, call, "offsets")
             .then("aten.searchsorted.Tensor", {place.value()}, {{"right", true}}) -
         1;
}

Term rows_at(const Term &x, const Term &index) {
  return x.then("aten.index.Tensor", {Argument(Arguments{index.value()})});
}
Term column(const Term &x) { return x.then("aten.unsqueeze.default", {-1}); }

void check_bags(const Call &call) {
  const auto rank = [&](std::string_view name) { return call.tensor(name).layout.rank(); };
  if (rank("grad") != 2 || rank("indices") != 1 || rank("offset2bag") != 1)
    call.fail("TSC-O102",
              call.node().target + ": gradient " + print_sizes(call.tensor("grad").layout.sizes) +
                  ", indices " + print_sizes(call.tensor("indices").layout.sizes) + ", bags " +
                  print_sizes(call.tensor("offset2bag").layout.sizes),
              "pass a matrix, and vectors of indices and bags");
}

/// Of the table: each row gets what its bags got.
Argument of_bags(GraphBuilder &builder, const Call &call) {
  check_bags(call);
  for (const Parameter &parameter : call.schema().parameters)
    if (parameter.name == "sparse" && call.boolean("sparse"))
      call.refuse("TSC-O005", call.node().target + " with a sparse gradient is not supported",
                  "use an embedding with sparse=False");
  if (call.boolean("scale_grad_by_freq"))
    call.refuse("TSC-O005",
                call.node().target + " by frequency is not supported: PyTorch's kernel for CPUs "
                                     "divides by how often other indices stand",
                "use scale_grad_by_freq=False");
  const TensorMeta grad = call.tensor("grad");
  const Term above = wide(builder, call, "grad");
  const Expr count = call.size("num_weights"), width = grad.layout.sizes[1];
  const Term zeros = filled(builder, {count, width}, 0.0, above.meta().dtype, grad.device);
  const int64_t mode = call.integer("mode");
  if (mode == kMax) { // bags without an index have no largest one
    const Term full = column(given(builder, call, "bag_size").then("aten.ne.Tensor", {0}));
    return zeros
        .then("aten.scatter_add.default",
              {0, call["maximum_indices"], where(full, above, 0.0).value()})
        .as(grad.dtype);
  }
  const Term bags = bags_of(builder, call);
  const Term indices(builder, checked_range(builder, call["indices"], count));
  Term rows = rows_at(above, bags);
  if (mode == kMean) {
    const Term sizes = rows_at(given(builder, call, "bag_size"), bags);
    rows = rows / column(sizes.then("aten.clamp_min.default", {1}));
  }
  if (call.has("per_sample_weights"))
    rows = rows * column(wide(builder, call, "per_sample_weights"));
  if (call.integer("padding_idx") >= 0)
    rows = where(column(equal(indices, call["padding_idx"])), 0.0, rows);
  return zeros.then("aten.index_put.default", {Arguments{indices.value()}, rows.value(), true})
      .as(grad.dtype);
}

/// Of the weight of each index in its bag: the row's product with what its bag got.
Argument of_sample_weights(GraphBuilder &builder, const Call &call) {
  check_bags(call);
  const TensorMeta weight = call.tensor("weight");
  if (call.integer("mode") != 0)
    call.fail("TSC-O102", call.node().target + " of another mode than sums", "use mode='sum'");
  const Term indices(builder, checked_range(builder, call["indices"], weight.layout.sizes.at(0)));
  const Term above = rows_at(wide(builder, call, "grad"), bags_of(builder, call));
  Term result = sum(above * rows_at(wide(builder, call, "weight"), indices), {1}, false);
  if (call.integer("padding_idx") >= 0)
    result = where(equal(indices, call["padding_idx"]), 0.0, result);
  return result.as(call.tensor("grad").dtype);
}

/// How a distance of order p grows with a difference, 0 where there is no distance.
Term slope_of_distance(const Term &apart, const Term &distance, double p) {
  const Term sign = apart.then("aten.sign.default");
  if (p == 1)
    return sign;
  if (std::isinf(p))
    return where(equal(abs(apart), distance), sign, 0.0);
  if (p == 2)
    return where(equal(distance, 0), 0.0, apart / distance);
  const Term share = (abs(apart) / distance).then("aten.pow.Tensor_Scalar", {p - 1});
  const Term none = p < 2 ? either(equal(apart, 0), equal(distance, 0)) : equal(distance, 0);
  return where(none, 0.0, sign * share);
}

/// Of x1 [.., p, m] for the distances [.., p, r] to x2 [.., r, m].
Argument of_distances(GraphBuilder &builder, const Call &call) {
  const TensorMeta x1 = call.tensor("x1"), x2 = call.tensor("x2");
  if (x1.layout.rank() < 2 || x2.layout.rank() < 2)
    call.fail("TSC-O035", call.node().target + " needs 2 or more dimensions",
              "pass [.., rows, columns]");
  const double p = call.number("p");
  if (p == 0)
    return filled(builder, x1.layout.sizes, 0.0, x1.dtype, x1.device).value();
  const Term apart = wide(builder, call, "x1").then("aten.unsqueeze.default", {-2}) -
                     wide(builder, call, "x2").then("aten.unsqueeze.default", {-3}).value();
  const Term slope = slope_of_distance(apart, column(wide(builder, call, "cdist")), p);
  const Term moved = slope * column(wide(builder, call, "grad"));
  const size_t rank = moved.meta().layout.rank();
  return sum(moved, {rank - 2}, false)
      .then("aten.sum_to_size.default", {sizes_argument(x1.layout.sizes)})
      .as(x1.dtype);
}

} // namespace

void add_lookup_gradients(Table &table) {
  const std::string saved = "Tensor offset2bag, Tensor bag_size, Tensor maximum_indices, SymInt "
                            "num_weights, bool scale_grad_by_freq, int mode, ",
                    weights = "Tensor? per_sample_weights, int padding_idx=-1) -> Tensor";
  table
      .add(keep_text("_embedding_bag_backward(Tensor grad, Tensor indices, Tensor offsets, " +
                     saved + "bool sparse, " + weights))
      .decompose(of_bags);
  table
      .add(keep_text("_embedding_bag_dense_backward(Tensor grad, Tensor indices, " + saved +
                     weights))
      .decompose(of_bags);
  table
      .add("_embedding_bag_per_sample_weights_backward(Tensor grad, Tensor weight, Tensor indices, "
           "Tensor offsets, Tensor offset2bag, int mode, int padding_idx=-1) -> Tensor")
      .decompose(of_sample_weights);
  table.add("_cdist_backward(Tensor grad, Tensor x1, Tensor x2, float p, Tensor cdist) -> Tensor")
      .decompose(of_distances);
}

} // namespace tsc::ops
