// Operators that reduce or scan.
#include "lowering/reductions.h"

#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/views.h"

#include <algorithm>
#include <cmath>

namespace tsc::lowering {

namespace {

using ir::ReductionKind;

/// int, int[] or None; an empty list means all dimensions.
std::vector<size_t> dimensions_argument(const ops::Call &call, std::string_view parameter,
                                        size_t rank) {
  std::vector<size_t> dimensions;
  const graph::Argument &argument = call[parameter];
  if (rank == 0 || argument.is_none())
    return dimensions;
  if (std::holds_alternative<int64_t>(argument.value))
    return {dimension_argument(call, parameter, rank)};
  for (int64_t dimension : call.integers(parameter))
    dimensions.push_back(dimension_of(dimension, rank));
  return dimensions;
}

/// The input converted to the result's dtype first (sum, prod, amax, amin, any, all).
Lowering reduction(ReductionKind kind) {
  return [kind](Context &context, const ops::Call &call) -> NodeValue {
    const DType dtype = result_meta(context).dtype;
    const TensorValue value = convert(context, tensor_argument(context, call, "self"), dtype);
    ReductionSpec spec =
        reduction_over(context, value, dimensions_argument(call, "dim", value.sizes.size()),
                       call.boolean("keepdim"));
    spec.kind = kind;
    return reduce(context, spec)[0];
  };
}

Lowering arg_reduction(ReductionKind kind) {
  return [kind](Context &context, const ops::Call &call) -> NodeValue {
    TensorValue value = rounded(context, tensor_argument(context, call, "self"));
    const bool whole = !call.has("dim");
    const size_t rank = value.sizes.size();
    if (whole)
      value = reshape(context, value, {symbolic::numel(value.sizes)});
    ReductionSpec spec = reduction_over(
        context, value, whole ? std::vector<size_t>{0} : dimensions_argument(call, "dim", rank),
        !whole && call.boolean("keepdim"));
    spec.kind = kind;
    spec.dtype = DType::i64;
    TensorValue result = reduce(context, spec)[0];
    return whole ? reshape(context, result, result_meta(context).layout.sizes) : result;
  };
}

/// max(0, count - correction), the divisor of the variance.
Operand degrees_of_freedom(Context &context, Expr count, double correction, DType dtype) {
  if (count.is_integer()) {
    const double divisor = static_cast<double>(count.value()) - correction;
    return constant_operand(context, divisor > 0 ? divisor : 0.0, dtype);
  }
  const Operand number = index_operand(context, count, DType::i64, {});
  const Operand cast = elementwise_operand(context, Op::to_dtype, dtype, {}, {number});
  context.module.loops[cast.node].source_dtype = DType::i64;
  const Operand less = elementwise_operand(context, Op::sub, dtype, {},
                                           {cast, constant_operand(context, correction, dtype)});
  const Operand zero = constant_operand(context, 0.0, dtype);
  return elementwise_operand(context, Op::maximum, dtype, {}, {less, zero});
}

struct Moments {
  TensorValue mean;
  TensorValue sum_of_squares; // of the distances from the mean
};

/// Welford's update of nothing leaves 0, where PyTorch divides by 0.
TensorValue mean_or_nan(Context &context, const TensorValue &mean, Expr count) {
  if (symbolic::bounds(count, *context.ranges).low > 0)
    return mean;
  const Operand nan = constant_operand(context, std::nan(""), mean.dtype);
  if (count.is_integer())
    return tensor_of(context, view_loop(context, mean.dtype, mean.sizes, nan));
  const Operand nothing =
      elementwise_operand(context, Op::eq, DType::boolean, mean.sizes,
                          {index_operand(context, count, DType::i64, mean.sizes),
                           constant_operand(context, int64_t{0}, DType::i64)});
  return tensor_of(context, elementwise(context, Op::where, mean.dtype, mean.sizes,
                                        {nothing, nan, operand_of(context, mean)}));
}

/// Two passes for short rows that are written out (TorchInductor's choice), Welford's update
/// otherwise.
Moments moments_of(Context &context, const TensorValue &value,
                   const std::vector<size_t> &dimensions, bool keep_dimensions) {
  ReductionSpec spec = reduction_over(context, value, dimensions, keep_dimensions);
  const Expr count = symbolic::numel(spec.reduction_sizes);
  if (!is_written_out(context, spec)) {
    spec.kind = ReductionKind::welford_reduce;
    const std::vector<TensorValue> tuple = reduce(context, spec);
    return {mean_or_nan(context, tuple[0], count), tuple[1]};
  }
  const ReductionSpec kept = reduction_over(context, value, dimensions, true);
  const Operand sum = operand_of(context, reduce(context, kept)[0]);
  const Operand number = constant_operand(context, count.value(), value.dtype);
  const TensorValue mean =
      tensor_of(context, elementwise(context, Op::truediv, value.dtype, kept.sizes, {sum, number}));
  const Operand distance = elementwise_operand(
      context, Op::sub, value.dtype, value.sizes,
      {operand_of(context, value), broadcast_operand(context, mean, value.sizes)});
  const TensorValue square = tensor_of(
      context, elementwise(context, Op::mul, value.dtype, value.sizes, {distance, distance}));
  Moments moments;
  moments.sum_of_squares =
      reduce(context, reduction_over(context, square, dimensions, keep_dimensions))[0];
  moments.mean = keep_dimensions ? mean : reshape(context, mean, spec.sizes);
  return moments;
}

NodeValue var_mean(Context &context, const ops::Call &call) {
  const DType dtype = result_meta(context).dtype;
  const DType computed = tensor::is_reduced_float(dtype) ? DType::f32 : dtype;
  const TensorValue value = convert(context, tensor_argument(context, call, "self"), computed);
  const std::vector<size_t> dimensions = dimensions_argument(call, "dim", value.sizes.size());
  const Moments moments = moments_of(context, value, dimensions, call.boolean("keepdim"));
  Expr count = 1;
  for (size_t k = 0; k < value.sizes.size(); ++k) {
    const bool reduced = dimensions.empty() ||
                         std::find(dimensions.begin(), dimensions.end(), k) != dimensions.end();
    count *= reduced ? value.sizes[k] : Expr(1);
  }
  const double correction = call.has("correction") ? call.number("correction") : 1.0;
  const std::vector<Expr> &sizes = moments.sum_of_squares.sizes;
  const Operand squares = operand_of(context, moments.sum_of_squares);
  const Operand divisor = degrees_of_freedom(context, count, correction, computed);
  const TensorValue variance =
      tensor_of(context, elementwise(context, Op::truediv, computed, sizes, {squares, divisor}));
  std::vector<TensorValue> result = {convert(context, variance, dtype),
                                     convert(context, moments.mean, dtype)};
  return result;
}

Lowering scan(ir::ScanKind kind) {
  return [kind](Context &context, const ops::Call &call) -> NodeValue {
    const DType dtype = result_meta(context).dtype;
    const TensorValue value = convert(context, tensor_argument(context, call, "self"), dtype);
    const size_t rank = value.sizes.size();
    const size_t axis = rank == 0 ? 0 : dimension_argument(call, "dim", rank);
    if (rank == 0 || value.sizes[axis].is_integer(1) || symbolic::numel(value.sizes).is_integer(0))
      return value;
    std::vector<Expr> index;
    for (size_t k = 0; k < rank; ++k)
      index.push_back(ir::variable(k < axis ? k : k == axis ? rank - 1 : k - 1));
    ir::Scan scan;
    scan.kind = kind;
    scan.axis = axis;
    scan.inputs = {reindexed(operand_of(context, value), index)};
    const BufferId buffer = register_buffer(context, value.sizes, dtype, result_device(context));
    register_operation(context, std::move(scan), {buffer});
    return tensor_of_buffer(context, buffer);
  };
}

} // namespace

void add_reductions(Registry &registry) {
  registry["sum"] = reduction(ReductionKind::sum);
  registry["prod"] = reduction(ReductionKind::prod);
  registry["amax"] = reduction(ReductionKind::max);
  registry["amin"] = reduction(ReductionKind::min);
  registry["any"] = reduction(ReductionKind::any);
  registry["all"] = reduction(ReductionKind::all);
  registry["xor_sum"] = reduction(ReductionKind::xor_sum);
  registry["argmax"] = arg_reduction(ReductionKind::argmax);
  registry["argmin"] = arg_reduction(ReductionKind::argmin);
  registry["var_mean"] = var_mean;
}

void add_scans(Registry &registry) {
  registry["cumsum"] = scan(ir::ScanKind::sum);
  registry["cumprod"] = scan(ir::ScanKind::prod);
  registry["running_maximum"] = scan(ir::ScanKind::max);
  registry["running_minimum"] = scan(ir::ScanKind::min);
  registry["running_logsumexp"] = scan(ir::ScanKind::logsumexp);
}

} // namespace tsc::lowering
