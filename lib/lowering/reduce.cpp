#include "lowering/reductions.h"

#include "ir/body.h"
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

/// Of the tensor that a node gives; null if it gives none, or several.
const std::vector<Expr> *sizes_of(const graph::Node &node) {
  const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
  return meta ? &meta->layout.sizes : nullptr;
}

/// Nodes that `from` leads to, itself among them, through values of as many elements and nodes that
/// give several values; at most kMostNodes. `ends`: called with every other one; true ends the
/// search, and is what comes back.
template <typename Ends>
bool leads_to(const Context &context, graph::NodeId from, Expr elements, Ends ends) {
  constexpr size_t kMostNodes = 16;
  std::vector<graph::NodeId> open = {from};
  for (size_t next = 0; next < open.size() && next < kMostNodes; ++next)
    for (const graph::NodeId user : context.users[open[next]]) {
      const std::vector<Expr> *sizes = sizes_of(context.graph.node(user));
      if (sizes && symbolic::numel(*sizes) != elements) {
        if (ends(user, *sizes))
          return true;
      } else if (std::find(open.begin(), open.end(), user) == open.end()) {
        open.push_back(user);
      }
    }
  return false;
}

/// Whether what the current node reduces is asked for again, element by element, by what its result
/// is for. Of the shortest rows one such expression is no more than a few loads: only if its
/// elements are reduced again.
bool is_read_back(const Context &context, Expr rows, Expr count) {
  constexpr int64_t kShortest = 3;
  const graph::Node &node = context.graph.node(context.current);
  const graph::NodeRef *argument = node.args.empty() ? nullptr : node.args[0].node();
  const std::vector<Expr> *elements =
      argument ? sizes_of(context.graph.node(argument->id)) : nullptr;
  if (!elements)
    return false;
  const auto reduces = [&](graph::NodeId, const std::vector<Expr> &sizes) {
    return symbolic::numel(sizes) == rows;
  };
  return leads_to(
      context, context.current, rows, [&](graph::NodeId user, const std::vector<Expr> &sizes) {
        return sizes == *elements && (count.value() > kShortest ||
                                      leads_to(context, user, symbolic::numel(*elements), reduces));
      });
}

/// Whether another reduction of the elements that the current node reduces is never written out:
/// the place of the maximum beside it. One kernel has both.
bool is_reduced_beside(const Context &context) {
  const graph::Node &node = context.graph.node(context.current);
  const graph::NodeRef *argument = node.args.empty() ? nullptr : node.args[0].node();
  if (!argument)
    return false;
  const std::vector<graph::NodeId> &users = context.users[argument->id];
  return std::any_of(users.begin(), users.end(), [&](graph::NodeId user) {
    const graph::Node &other = context.graph.node(user);
    const bool finds =
        other.target == "aten.argmax.default" || other.target == "aten.argmin.default";
    return finds && other.args.size() > 1 && node.args.size() > 1 && sizes_of(other) &&
           sizes_of(node) && symbolic::numel(*sizes_of(other)) == symbolic::numel(*sizes_of(node));
  });
}

/// Whether the elements take what a reduction of the same number of as many elements yields.
bool takes_reduced_rows(const Context &context, const ReductionSpec &spec) {
  const Expr rows = symbolic::numel(spec.sizes), count = symbolic::numel(spec.reduction_sizes);
  const ir::LoopBody body = ir::trace_value(context.module, spec.inputs[0].node);
  return std::any_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
    if (op.op != Op::load)
      return false;
    const ir::Buffer &buffer = context.module.buffer(op.buffer);
    const auto *reduction =
        buffer.operation == ir::kNone
            ? nullptr
            : std::get_if<ir::Reduction>(&context.module.operations[buffer.operation].kind);
    return reduction && symbolic::numel(reduction->reduction_sizes) == count &&
           symbolic::numel(buffer.layout.sizes) == rows;
  });
}

} // namespace

bool is_written_out(Context &context, const ReductionSpec &spec) {
  const Expr count = symbolic::numel(spec.reduction_sizes);
  if (!count.is_integer() || count.value() >= context.policy.unroll_reductions_threshold)
    return false;
  return !context.policy.reductions_take_values ||
         !(is_read_back(context, symbolic::numel(spec.sizes), count) ||
           is_reduced_beside(context) || takes_reduced_rows(context, spec));
}

std::vector<TensorValue> reduce(Context &context, const ReductionSpec &spec) {
  const Expr count = symbolic::numel(spec.reduction_sizes);
  if (count.is_integer(0))
    return reduce_nothing(context, spec);
  if (count.is_integer(1))
    return reduce_one_element(context, spec);
  const std::optional<Op> op = combining_op(spec.kind, spec.source_dtype);
  if (op && is_written_out(context, spec))
    return {unroll(context, spec, *op, count.value())};
  if (const std::optional<std::vector<bool>> of_row = dimensions_of_rows(context, spec))
    return reduce_in_rows(context, spec, *of_row);
  const int64_t splits = number_of_splits(context, spec);
  return splits > 1 ? reduce_in_parts(context, spec, splits) : register_reduction(context, spec);
}

std::vector<TensorValue> register_reduction(Context &context, const ReductionSpec &spec) {
  // Of one element there is no loop, and a kernel would take that over rows for it.
  if (symbolic::numel(spec.reduction_sizes).is_integer(1) &&
      (ir::tuple_size(spec.kind) == 1 || spec.kind == ReductionKind::welford_reduce))
    return reduce_one_element(context, spec);
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
