// Layer, group, RMS and local response normalization, weight normalization. Statistics are computed
// in f32 or wider.
#include "ops/families/normalization.h"
#include "ops/table/memory_format.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {

Normalized normalize(GraphBuilder &builder, const Argument &x, const std::vector<size_t> &dims,
                     double eps) {
  Argument wide = widen(builder, x);
  Argument pair = builder.emit("aten.var_mean.correction", {wide, ints_argument(dims)},
                               {{"correction", 0}, {"keepdim", true}});
  Normalized result;
  result.variance = builder.item(pair, 0);
  result.mean = builder.item(pair, 1);
  Argument shifted_variance = builder.call(kAdd, {result.variance, eps});
  result.rstd = builder.call("aten.rsqrt.default", {shifted_variance});
  Argument centred = builder.call(kSub, {wide, result.mean});
  result.values = builder.call(kMul, {centred, result.rstd});
  return result;
}

Argument scale_and_shift(GraphBuilder &builder, Argument x, const Argument &weight,
                         const Argument &bias) {
  if (!weight.is_none())
    x = builder.call(kMul, {x, weight});
  if (!bias.is_none())
    x = builder.call(kAdd, {x, bias});
  return x;
}

Argument over_channels(GraphBuilder &builder, const Argument &vector, size_t rank) {
  if (vector.is_none())
    return vector;
  Argument result = widen(builder, vector);
  for (size_t i = 2; i < rank; ++i)
    result = builder.call("aten.unsqueeze.default", {result, -1});
  return result;
}

namespace {

std::vector<size_t> normalized_dims(const Call &call) {
  const TensorMeta &input = call.tensor("input");
  std::vector<Expr> shape = call.sizes("normalized_shape");
  size_t rank = input.layout.rank();
  bool matches = !shape.empty() && shape.size() <= rank;
  for (size_t i = 0; matches && i < shape.size(); ++i)
    matches = same_size(shape[i], input.layout.sizes[rank - shape.size() + i], call.ranges());
  if (!matches)
    call.fail("TSC-O037",
              call.node().target + ": normalized_shape " + print_sizes(shape) +
                  " is not the end of the input's sizes " + print_sizes(input.layout.sizes),
              "pass the last sizes of the input");
  std::vector<size_t> dims;
  for (size_t i = rank - shape.size(); i < rank; ++i)
    dims.push_back(i);
  return dims;
}

Argument native_layer_norm(GraphBuilder &builder, const Call &call) {
  DType dtype = call.tensor("input").dtype;
  std::vector<size_t> dims = normalized_dims(call);
  Argument input = contiguous(builder, call["input"]);
  Normalized normalized = normalize(builder, input, dims, call.number("eps"));
  Argument scaled = scale_and_shift(builder, normalized.values, call["weight"], call["bias"]);
  Argument result = convert(builder, scaled, dtype);
  return Arguments{result, normalized.mean, normalized.rstd};
}

Argument layer_norm(GraphBuilder &builder, const Call &call) {
  Argument results =
      builder.call("aten.native_layer_norm.default", {call["input"], call["normalized_shape"],
                                                      call["weight"], call["bias"], call["eps"]});
  return builder.item(results, 0);
}

/// (x * rsqrt(mean(x^2) + eps) * weight, the reciprocal root)
Argument rms_norm_with_statistics(GraphBuilder &builder, const Call &call) {
  DType dtype = call.tensor("input").dtype;
  std::vector<size_t> dims = normalized_dims(call);
  constexpr double kEpsilonF32 = 1.1920928955078125e-07, kEpsilonF64 = 2.220446049250313e-16;
  double eps = call.has("eps")       ? call.number("eps")
               : dtype == DType::f64 ? kEpsilonF64
                                     : kEpsilonF32;
  Argument x = widen(builder, call["input"]);
  Argument square = builder.call(kMul, {x, x});
  Argument mean = builder.call("aten.mean.dim", {square, ints_argument(dims), true});
  Argument shifted = builder.call(kAdd, {mean, eps});
  Argument rstd = builder.call("aten.rsqrt.default", {shifted});
  Argument normalized = builder.call(kMul, {x, rstd});
  Argument scaled = scale_and_shift(builder, normalized, call["weight"], graph::None{});
  return Arguments{convert(builder, scaled, dtype), rstd};
}

Argument rms_norm(GraphBuilder &builder, const Call &call) {
  return builder.item(rms_norm_with_statistics(builder, call), 0);
}

/// [N, C, ..] as [N, groups, C / groups * ..], normalized over the last dimension. `groups` is the
/// parameter's name.
Argument group_norm_with_statistics(GraphBuilder &builder, const Call &call,
                                    std::string_view groups) {
  const TensorMeta input = call.tensor("input");
  size_t rank = input.layout.rank();
  // Said in full: of no elements nothing could be inferred.
  const Expr count = call.size(groups);
  const std::vector<Expr> one(input.layout.sizes.begin() + 1, input.layout.sizes.end());
  Argument flat;
  if (count.is_integer() && count.value() > 0)
    flat = builder.call(
        "aten.reshape.default",
        {call["input"],
         sizes_argument({input.layout.sizes[0], count,
                         symbolic::simplify(symbolic::floor_div(symbolic::numel(one), count),
                                            call.ranges())})});
  else
    flat = builder.call(
        "aten.reshape.default",
        {call["input"], Arguments{size_argument(input.layout.sizes[0]), call[groups], -1}});
  Normalized normalized = normalize(builder, flat, {2}, call.number("eps"));
  Argument shaped =
      builder.call("aten.reshape.default", {normalized.values, sizes_argument(input.layout.sizes)});
  Argument weight = over_channels(builder, call["weight"], rank);
  Argument bias = over_channels(builder, call["bias"], rank);
  Argument scaled = scale_and_shift(builder, shaped, weight, bias);
  Argument result = convert(builder, scaled, input.dtype);
  Argument mean = builder.call("aten.squeeze.dims", {normalized.mean, Arguments{2}});
  Argument rstd = builder.call("aten.squeeze.dims", {normalized.rstd, Arguments{2}});
  return Arguments{result, convert(builder, mean, input.dtype),
                   convert(builder, rstd, input.dtype)};
}

Argument group_norm(GraphBuilder &builder, const Call &call) {
  return builder.item(group_norm_with_statistics(builder, call, "num_groups"), 0);
}

/// (v * g / |v|, |v|), the norm over all dimensions but `dim`; -1 is none of them.
Argument weight_norm(GraphBuilder &builder, const Call &call) {
  const TensorMeta v = call.tensor("v");
  int64_t dim = call.integer("dim");
  std::vector<size_t> dims;
  for (size_t i = 0; i < v.layout.rank(); ++i)
    if (dim == -1 || i != normalize_dim(call, dim, v.layout.rank()))
      dims.push_back(i);
  Argument wide = widen(builder, call["v"]);
  // linalg_vector_norm takes no dimensions for all.
  const bool each = dims.empty() && v.layout.rank() != 0;
  Argument norm = each ? builder.call("aten.abs.default", {wide})
                       : builder.call("aten.linalg_vector_norm.default",
                                      {wide, 2, ints_argument(dims), dim != -1});
  // ATen's fused kernel reads as many elements of g as there are norms, whatever sizes g has, and
  // gives the norms g's sizes; its export records their own.
  const TensorMeta norms = builder.meta(norm), g = call.tensor("g");
  const bool yields_norms = call.node().target == "aten._weight_norm_interface.default";
  if (yields_norms ? g.layout.sizes != norms.layout.sizes
                   : symbolic::numel(g.layout.sizes) != symbolic::numel(norms.layout.sizes))
    call.fail("TSC-O034", call.node().target + ": g has sizes " + print_sizes(g.layout.sizes),
              "pass one g for each norm: sizes " + print_sizes(norms.layout.sizes));
  Argument lengths = builder.call("aten.reshape.default",
                                  {widen(builder, call["g"]), sizes_argument(norms.layout.sizes)});
  Argument factor = builder.call(kDiv, {lengths, norm});
  Argument weight = convert(builder, builder.call(kMul, {wide, factor}), v.dtype);
  return Arguments{weight, norm};
}

} // namespace

void add_normalization(Table &table) {
  table.add("_weight_norm(Tensor v, Tensor g, int dim=0) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return weight_norm(builder, call).list()->at(0);
      });
  table.add("_weight_norm_interface(Tensor v, Tensor g, int dim=0) -> (Tensor, Tensor)")
      .decompose(weight_norm);
  table
      .add("native_layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight, Tensor? "
           "bias, float eps) "
           "-> (Tensor, Tensor, Tensor)")
      .decompose(native_layer_norm);
  table
      .add("layer_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, Tensor? "
           "bias=None, float "
           "eps=1e-05, bool cudnn_enable=True) -> Tensor")
      .decompose(layer_norm);
  table
      .add("rms_norm(Tensor input, SymInt[] normalized_shape, Tensor? weight=None, float? "
           "eps=None) -> Tensor")
      .decompose(in_format_of("input", rms_norm));
  table
      .add("_fused_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float? eps) -> "
           "(Tensor, Tensor)")
      .decompose(rms_norm_with_statistics);
  table
      .add("group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float "
           "eps=1e-05, bool "
           "cudnn_enabled=True) -> Tensor")
      .decompose(in_format_of("input", group_norm));
  table
      .add("native_group_norm(Tensor input, Tensor? weight, Tensor? bias, SymInt N, SymInt C, "
           "SymInt HxW, int group, "
           "float eps) -> (Tensor, Tensor, Tensor)")
      .decompose(in_format_of("input", [](GraphBuilder &builder, const Call &call) {
        return group_norm_with_statistics(builder, call, "group");
      }));
}

} // namespace tsc::ops
