// Backward forms of normalizations and of softmax, in f32 or wider, from the statistics that the
// forward pass saved.
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "ops/table/term.h"

#include <cmath>

namespace tsc::ops {
namespace {

using Dims = std::vector<size_t>;

Dims dims_between(size_t first, size_t end) {
  Dims dims;
  for (size_t i = first; i < end; ++i)
    dims.push_back(i);
  return dims;
}

/// How many elements a sum over `dims` adds up.
Expr count_of(const std::vector<Expr> &sizes, const Dims &dims) {
  Expr count(1);
  for (const size_t dim : dims)
    count *= sizes[dim];
  return count;
}

/// Which of the results are asked for.
bool is_wanted(const Call &call, size_t result) {
  const Arguments *mask = call["output_mask"].list();
  const bool *wanted =
      mask && result < mask->size() ? std::get_if<bool>(&(*mask)[result].value) : nullptr;
  return wanted ? *wanted : true;
}

/// Throws TSC-O129 unless the gradient has the sizes of what it is the gradient of.
void require_sizes_of(const Call &call, std::string_view gradient, std::string_view of) {
  const std::vector<Expr> given = call.tensor(gradient).layout.sizes,
                          wanted = call.tensor(of).layout.sizes;
  bool same = given.size() == wanted.size();
  for (size_t d = 0; same && d < given.size(); ++d)
    same = taken_equal(call, given[d], wanted[d]);
  if (!same)
    call.fail("TSC-O129",
              call.node().target + ": '" + std::string(gradient) + "' of sizes " +
                  print_sizes(given) + " does not fit '" + std::string(of) + "' of sizes " +
                  print_sizes(wanted),
              "pass the gradient of the forward pass's result");
}

/// With trailing dimensions of size 1 up to `rank`.
Term with_rank(Term x, size_t rank) {
  while (x.meta().layout.rank() < rank)
    x = x.then("aten.unsqueeze.default", {-1});
  return x;
}

/// Over channels: [C] as [C, 1, ..].
Term over_channels(const Term &x, size_t rank) { return with_rank(x, rank - 1); }

/// The statistics go over `dims`: what is left of `g`, the gradient of the normalized values, when
/// its mean and its part along them are taken away.
Term without_statistics(const Term &g, const Term &normalized, const Dims &dims, bool centred) {
  const Argument count = size_argument(count_of(g.meta().layout.sizes, dims));
  const Term along = normalized * (sum(g * normalized, dims, true) / count);
  return centred ? g - sum(g, dims, true) / count - along : g - along;
}

/// Layer and RMS normalization over the last dimensions: (input, weight[, bias]).
Argument of_layer_norm(GraphBuilder &builder, const Call &call, bool centred) {
  const TensorMeta input = call.tensor("input");
  require_sizes_of(call, "grad_out", "input");
  const size_t rank = input.layout.rank(), count = call.sizes("normalized_shape").size();
  if (count > rank)
    call.fail("TSC-O037",
              call.node().target + ": normalized_shape of " + std::to_string(count) +
                  " dimensions, the input has sizes " + print_sizes(input.layout.sizes),
              "pass the last sizes of the input");
  const Dims inner = dims_between(rank - count, rank), outer = dims_between(0, rank - count);
  const Term g = wide(builder, call, "grad_out"), x = wide(builder, call, "input");
  const Term rstd = with_rank(wide(builder, call, "rstd"), rank);
  const Term normalized = (centred ? x - with_rank(wide(builder, call, "mean"), rank) : x) * rstd;
  const bool weighted = call.has("weight");
  Arguments results(centred ? 3 : 2);
  if (is_wanted(call, 0)) {
    const Term scaled = weighted ? g * wide(builder, call, "weight") : g;
    results[0] = (rstd * without_statistics(scaled, normalized, inner, centred)).as(input.dtype);
  }
  if (is_wanted(call, 1) && weighted)
    results[1] = sum(g * normalized, outer, false).as(call.tensor("weight").dtype);
  if (centred && is_wanted(call, 2) && call.has("bias"))
    results[2] = outer.empty() ? g.then("aten.clone.default").as(call.tensor("bias").dtype)
                               : sum(g, outer, false).as(call.tensor("bias").dtype);
  return results;
}

/// Groups of channels of each sample are normalized: the input as [N, groups, C / groups, HxW].
Argument of_group_norm(GraphBuilder &builder, const Call &call) {
  const TensorMeta input = call.tensor("input");
  const Expr batch = call.size("N"), channels = call.size("C"), groups = call.size("group");
  const std::vector<Expr> apart = {
      batch, groups, symbolic::simplify(symbolic::floor_div(channels, groups), call.ranges()),
      call.size("HxW")};
  const Term g = reshaped(wide(builder, call, "grad_out"), apart);
  const Term x = reshaped(wide(builder, call, "input"), apart);
  const auto of_group = [&](std::string_view name) {
    return reshaped(wide(builder, call, name), {batch, groups, Expr(1), Expr(1)});
  };
  const Term rstd = of_group("rstd"), normalized = (x - of_group("mean")) * rstd;
  const DType parameter = call.has("weight") ? call.tensor("weight").dtype : input.dtype;
  Arguments results(3);
  if (is_wanted(call, 0)) {
    const Term scaled = call.has("weight") ? g * reshaped(wide(builder, call, "weight"),
                                                          {groups, apart[2], Expr(1)})
                                           : g;
    const Term own = rstd * without_statistics(scaled, normalized, {2, 3}, true);
    results[0] = reshaped(own, input.layout.sizes).as(input.dtype);
  }
  if (is_wanted(call, 1))
    results[1] = reshaped(sum(g * normalized, {0, 3}, false), {channels}).as(parameter);
  if (is_wanted(call, 2))
    results[2] = reshaped(sum(g, {0, 3}, false), {channels}).as(parameter);
  return results;
}

struct Forms {
  std::string_view gradient, mean, rstd;
};

/// The statistics go over everything but the channels; recorded ones (outside training) do not
/// depend on the input.
Argument of_batch_norm(GraphBuilder &builder, const Call &call, const Forms &names, bool training,
                       bool masked) {
  const TensorMeta input = call.tensor("input");
  const size_t rank = input.layout.rank();
  if (rank < 2)
    call.fail("TSC-O038",
              call.node().target + " of a tensor of " + std::to_string(rank) + " dimensions",
              "pass [batch, channels, ..]");
  const std::string_view mean = training ? names.mean : "running_mean",
                         spread = training ? names.rstd : "running_var";
  if (!call.has(mean) || !call.has(spread))
    call.fail("TSC-O039", call.node().target + " has no statistics",
              training ? "pass what the forward pass saved"
                       : "pass running_mean and running_var, or train=True");
  require_sizes_of(call, names.gradient, "input");
  Dims dims = dims_between(2, rank);
  dims.insert(dims.begin(), 0);
  const Term g = wide(builder, call, names.gradient), x = wide(builder, call, "input");
  Term rstd = wide(builder, call, spread);
  if (!training)
    rstd = 1.0 / sqrt(rstd + call["eps"]);
  const Term scale = over_channels(rstd, rank);
  const Term normalized = (x - over_channels(wide(builder, call, mean), rank)) * scale;
  const bool weighted = call.has("weight");
  const DType parameter = weighted ? call.tensor("weight").dtype : input.dtype;
  Arguments results(3);
  if (!masked || is_wanted(call, 0)) {
    const Term own = training ? without_statistics(g, normalized, dims, true) : g;
    const Term scaled = weighted ? own * over_channels(wide(builder, call, "weight"), rank) : own;
    results[0] = (scaled * scale).as(input.dtype);
  }
  if (!masked || is_wanted(call, 1))
    results[1] = sum(g * normalized, dims, false).as(parameter);
  if (!masked || is_wanted(call, 2))
    results[2] = sum(g, dims, false).as(parameter);
  return results;
}

/// v * g / |v|: (of v, of g).
Argument of_weight_norm(GraphBuilder &builder, const Call &call) {
  const TensorMeta v = call.tensor("saved_v");
  const int64_t dim = call.integer("dim");
  Dims dims;
  for (size_t i = 0; i < v.layout.rank(); ++i)
    if (dim == -1 || i != normalize_dim(call, dim, v.layout.rank()))
      dims.push_back(i);
  const Term above = wide(builder, call, "grad_w"), values = wide(builder, call, "saved_v");
  const Term norms = wide(builder, call, "saved_norms"), g = wide(builder, call, "saved_g");
  const Term along = sum(above * values, dims, true);
  const Term own = g / norms * (above - values * (along / square(norms)));
  return Arguments{own.as(v.dtype), (along / norms).as(call.tensor("saved_g").dtype)};
}

/// `soft` is what the forward pass gave: probabilities, or their logarithms.
Argument of_softmax(GraphBuilder &builder, const Call &call, bool logarithm) {
  require_sizes_of(call, "grad_output", "output");
  const Term g = wide(builder, call, "grad_output"), soft = wide(builder, call, "output");
  const size_t rank = soft.meta().layout.rank();
  const size_t dim = normalize_dim(call, call.integer("dim"), rank);
  const Dims dims = rank == 0 ? Dims{} : Dims{dim};
  const Term own =
      logarithm ? g - exp(soft) * sum(g, dims, true) : soft * (g - sum(g * soft, dims, true));
  return own.as(call.dtype("input_dtype").value_or(call.tensor("output").dtype));
}

/// Where the mask is set nothing was let through.
Argument of_masked_softmax(GraphBuilder &builder, const Call &call) {
  const Term g = wide(builder, call, "grad_output"), soft = wide(builder, call, "output");
  const size_t rank = soft.meta().layout.rank();
  const size_t dim = normalize_dim(call, call.has("dim") ? call.integer("dim") : -1, rank);
  const Term mask = given(builder, call, "mask");
  const Dims dims = rank == 0 ? Dims{} : Dims{dim};
  const Term open = where(mask, 0.0, g * soft);
  return where(mask, 0.0, open - soft * sum(open, dims, true)).as(call.tensor("output").dtype);
}

void add_norms(Table &table) {
  table
      .add("native_layer_norm_backward(Tensor grad_out, Tensor input, SymInt[] normalized_shape, "
           "Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, bool[3] output_mask) -> "
           "(Tensor, Tensor, Tensor)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return of_layer_norm(builder, call, true);
      });
  table
      .add("_fused_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor "
           "rstd, Tensor? weight, bool[2] output_mask) -> (Tensor, Tensor)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return of_layer_norm(builder, call, false);
      });
  table
      .add("native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, "
           "Tensor? weight, SymInt N, SymInt C, SymInt HxW, int group, bool[3] output_mask) -> "
           "(Tensor, Tensor, Tensor)")
      .decompose(of_group_norm);
  for (const std::string_view name : {"_weight_norm_interface", "_weight_norm_differentiable"})
    table
        .add(keep_text(std::string(name) + "_backward(Tensor grad_w, Tensor saved_v, Tensor "
                                           "saved_g, Tensor saved_norms, int dim) -> (Tensor, "
                                           "Tensor)"))
        .decompose(of_weight_norm);
}

void add_batch_norms(Table &table) {
  table
      .add("native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? "
           "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_invstd, bool train, "
           "float eps, bool[3] output_mask) -> (Tensor, Tensor, Tensor)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return of_batch_norm(builder, call, {"grad_out", "save_mean", "save_invstd"},
                             call.boolean("train"), true);
      });
  table
      .add("batch_norm_backward(Tensor grad_out, Tensor input, Tensor weight, Tensor? "
           "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, bool update, "
           "float eps, bool[3] output_mask, Tensor reserve) -> (Tensor, Tensor, Tensor)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return of_batch_norm(builder, call, {"grad_out", "save_mean", "save_var"},
                             call.boolean("update"), true);
      });
  table
      .add("cudnn_batch_norm_backward(Tensor input, Tensor grad_output, Tensor weight, Tensor? "
           "running_mean, Tensor? running_var, Tensor? save_mean, Tensor? save_var, float epsilon, "
           "Tensor reserveSpace) -> (Tensor, Tensor, Tensor)")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return of_batch_norm(builder, call, {"grad_output", "save_mean", "save_var"}, true, false);
      });
}

} // namespace

void add_normalization_gradients(Table &table) {
  add_norms(table);
  add_batch_norms(table);
  for (const bool logarithm : {false, true})
    table
        .add(keep_text(std::string(logarithm ? "_log" : "") +
                       "_softmax_backward_data(Tensor grad_output, Tensor output, int dim, "
                       "ScalarType input_dtype) -> Tensor"))
        .decompose([logarithm](GraphBuilder &builder, const Call &call) {
          return of_softmax(builder, call, logarithm);
        });
  table
      .add("_masked_softmax_backward(Tensor grad_output, Tensor output, Tensor mask, int? "
           "dim=None) -> Tensor")
      .decompose(of_masked_softmax);
}

} // namespace tsc::ops
