#include "lowering/reductions.h"

#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/split_reduction.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

using ir::ReductionKind;

tensor::Scalar neutral_element(ReductionKind kind, graph::NodeId node, const Context &context) {
  switch (kind) {
  case ReductionKind::prod:
    return int64_t{1};
  case ReductionKind::all:
    return true;
  case ReductionKind::sum:
  case ReductionKind::any:
  case ReductionKind::xor_sum:
  case ReductionKind::welford_reduce:
  case ReductionKind::welford_combine:
    return int64_t{0};
  default:
    break;
  }
  support::Diagnostic diagnostic;
  diagnostic.code = "TSC-O062";
  diagnostic.message =
      std::string(ir::reduction_name(kind)) + " over an empty dimension has no value";
  diagnostic.node = context.graph.node(node).name;
  diagnostic.next_step = "reduce a dimension with at least one element";
  throw support::UserError(support::ExitCode::unsupported, diagnostic);
}

TensorValue constant_tensor(Context &context, const ReductionSpec &spec,
                            const tensor::Scalar &value) {
  const Operand constant = constant_operand(context, value, spec.dtype);
  return tensor_of(context, view_loop(context, spec.dtype, spec.sizes, constant));
}

/// The inputs at a fixed position of the reduction, as an elementwise value over the result.
Operand input_at(Context &context, const ReductionSpec &spec, size_t input,
                 const std::vector<Expr> &position) {
  std::vector<Expr> index = identity_index(spec.sizes.size());
  index.insert(index.end(), position.begin(), position.end());
  const Operand at = reindexed(spec.inputs[input], index);
  return {view_loop(context, spec.source_dtype, spec.sizes, at), identity_index(spec.sizes.size())};
}

Operand cast(Context &context, const ReductionSpec &spec, const Operand &value, DType from,
             DType to) {
  if (from == to)
    return value;
  const Operand result = elementwise_operand(context, Op::to_dtype, to, spec.sizes, {value});
  context.module.loops[result.node].source_dtype = from;
  return result;
}

std::vector<TensorValue> reduce_nothing(Context &context, const ReductionSpec &spec) {
  const tensor::Scalar neutral = neutral_element(spec.kind, context.current, context);
  return std::vector<TensorValue>(ir::tuple_size(spec.kind),
                                  constant_tensor(context, spec, neutral));
}

std::vector<TensorValue> reduce_one_element(Context &context, const ReductionSpec &spec) {
  const std::vector<Expr> zero(spec.reduction_sizes.size(), Expr(0));
  switch (spec.kind) {
  case ReductionKind::argmax:
  case ReductionKind::argmin:
    return {constant_tensor(context, spec, int64_t{0})};
  case ReductionKind::welford_reduce: { // mean, m2, weight
    const Operand mean = input_at(context, spec, 0, zero);
    const LoopId squares = // not 0: of NaN and of an infinity it is NaN
        elementwise(context, Op::sub, spec.dtype, spec.sizes, {mean, mean});
    return {tensor_of(context, mean.node), tensor_of(context, squares),
            constant_tensor(context, spec, int64_t{1})};
  }
  default: {
    const Operand value =
        cast(context, spec, input_at(context, spec, 0, zero), spec.source_dtype, spec.dtype);
    return {tensor_of(context, value.node)};
  }
  }
}

/// Positions 0 .. n - 1 of the reduction, the last dimension fastest.
std::vector<std::vector<Expr>> positions_of(const std::vector<Expr> &sizes, int64_t count) {
  std::vector<std::vector<Expr>> positions;
  for (int64_t flat = 0; flat < count; ++flat) {
    std::vector<Expr> position(sizes.size());
    int64_t rest = flat;
    for (size_t k = sizes.size(); k-- > 0;) {
      position[k] = rest % sizes[k].value();
      rest /= sizes[k].value();
    }
    positions.push_back(std::move(position));
  }
  return positions;
}

std::optional<Op> combining_op(ReductionKind kind, DType dtype) {
  switch (kind) {
  case ReductionKind::sum:
    return Op::add;
  case ReductionKind::prod:
    return Op::mul;
  case ReductionKind::max:
    return dtype == DType::boolean ? Op::logical_or : Op::maximum;
  case ReductionKind::min:
    return dtype == DType::boolean ? Op::logical_and : Op::minimum;
  case ReductionKind::any:
    return Op::logical_or;
  case ReductionKind::all:
    return Op::logical_and;
  case ReductionKind::xor_sum:
    return Op::bitwise_xor;
  default:
    return std::nullopt;
  }
}

/// A left fold over the few elements of the reduction. Half types add up in f32: the fold is one
/// expression.
TensorValue unroll(Context &context, const ReductionSpec &spec, Op op, int64_t count) {
  std::optional<Operand> folded;
  for (const std::vector<Expr> &position : positions_of(spec.reduction_sizes, count)) {
    const Operand next = input_at(context, spec, 0, position);
    folded = folded
                 ? elementwise_operand(context, op, spec.source_dtype, spec.sizes, {*folded, next})
                 : next;
  }
  return tensor_of(context, cast(context, spec, *folded, spec.source_dtype, spec.dtype).node);
}

} // namespace

std::vector<TensorValue> reduce(Context &context, const ReductionSpec &spec) {
  const Expr count = symbolic::numel(spec.reduction_sizes);
  if (count.is_integer(0))
    return reduce_nothing(context, spec);
  if (count.is_integer(1))
    return reduce_one_element(context, spec);
  const std::optional<Op> op = combining_op(spec.kind, spec.source_dtype);
  if (op && count.is_integer() && count.value() < context.policy.unroll_reductions_threshold)
    return {unroll(context, spec, *op, count.value())};
  const int64_t splits = number_of_splits(context, spec);
  return splits > 1 ? reduce_in_parts(context, spec, splits) : register_reduction(context, spec);
}

std::vector<TensorValue> register_reduction(Context &context, const ReductionSpec &spec) {
  std::vector<TensorValue> results;
  for (size_t item = 0; item < ir::tuple_size(spec.kind); ++item) {
    ir::Reduction reduction;
    reduction.kind = spec.kind;
    reduction.source_dtype = spec.source_dtype;
    reduction.reduction_sizes = spec.reduction_sizes;
    reduction.inputs = spec.inputs;
    reduction.item = item;
    const BufferId buffer =
        register_buffer(context, spec.sizes, spec.dtype, result_device(context));
    register_operation(context, std::move(reduction), {buffer});
    results.push_back(tensor_of_buffer(context, buffer));
  }
  return results;
}

ReductionSpec reduction_over(Context &context, const TensorValue &value,
                             const std::vector<size_t> &dimensions, bool keep_dimensions) {
  std::vector<bool> reduced(value.sizes.size(), dimensions.empty());
  for (size_t dimension : dimensions)
    reduced[dimension] = true;
  ReductionSpec spec;
  spec.dtype = spec.source_dtype = value.dtype;
  for (size_t k = 0; k < value.sizes.size(); ++k) {
    if (reduced[k])
      spec.reduction_sizes.push_back(value.sizes[k]);
    if (!reduced[k] || keep_dimensions)
      spec.sizes.push_back(reduced[k] ? Expr(1) : value.sizes[k]);
  }
  std::vector<Expr> index;
  size_t kept = 0, next_reduced = spec.sizes.size();
  for (size_t k = 0; k < value.sizes.size(); ++k) {
    index.push_back(ir::variable(reduced[k] ? next_reduced++ : kept));
    kept += !reduced[k] || keep_dimensions ? 1 : 0;
  }
  spec.inputs = {reindexed(operand_of(context, value), index)};
  return spec;
}

} // namespace tsc::lowering
