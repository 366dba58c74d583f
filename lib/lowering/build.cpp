#include "lowering/build.h"

#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "lowering/checks.h"
#include "ops/families/assertions.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"
#include "support/hash.h"

#include <algorithm>

namespace tsc::lowering {

std::vector<Expr> identity_index(size_t rank) {
  std::vector<Expr> index;
  index.reserve(rank);
  for (size_t k = 0; k < rank; ++k)
    index.push_back(ir::variable(k));
  return index;
}

LoopId add_loop(Context &context, LoopNode node) {
  node.origins = {context.current};
  context.module.loops.push_back(std::move(node));
  return static_cast<LoopId>(context.module.loops.size() - 1);
}

tensor::Device result_device(const Context &context) { return context.device; }

TensorValue tensor_of(Context &context, LoopId loop) {
  const LoopNode &node = context.module.loops[loop];
  TensorValue value;
  value.storage = std::make_shared<Storage>();
  value.storage->sizes = value.sizes = node.sizes;
  value.storage->dtype = value.dtype = node.dtype;
  value.storage->loop = loop;
  value.storage->device = result_device(context);
  return value;
}

TensorValue tensor_of_buffer(Context &context, BufferId buffer) {
  const ir::Buffer &b = context.module.buffer(buffer);
  TensorValue value;
  value.storage = std::make_shared<Storage>();
  value.storage->sizes = value.sizes = b.layout.sizes;
  value.storage->dtype = value.dtype = b.dtype;
  value.storage->device = b.device;
  value.storage->buffer = buffer;
  return value;
}

namespace {

uint64_t hash_of(BufferId buffer, const std::optional<Layout> &layout) {
  uint64_t hash = buffer * 0x9e3779b97f4a7c15ULL;
  const auto mix = [&hash](Expr e) { hash = (hash ^ e.hash()) * 0x100000001b3ULL; };
  if (layout) {
    std::for_each(layout->sizes.begin(), layout->sizes.end(), mix);
    std::for_each(layout->strides.begin(), layout->strides.end(), mix);
    mix(layout->offset);
  }
  return hash;
}

/// One load node per buffer and layout, whoever asks first being its origin.
LoopId load_loop(Context &context, BufferId buffer, const std::optional<Layout> &layout) {
  std::vector<LoopId> &known = context.loads[hash_of(buffer, layout)];
  for (LoopId id : known) {
    const LoopNode &node = context.module.loops[id];
    if (node.buffer == buffer && node.layout == layout)
      return id;
  }
  LoopNode node;
  node.op = Op::load;
  node.dtype = context.module.buffer(buffer).dtype;
  node.sizes = layout ? layout->sizes : context.module.buffer(buffer).layout.sizes;
  node.buffer = buffer;
  node.layout = layout;
  const LoopId id = add_loop(context, std::move(node));
  if (layout)
    context.strided_loads.insert(buffer);
  context.module.loops[id].origins.clear(); // a read is nobody's computation
  known.push_back(id);
  return id;
}

} // namespace

Operand operand_of(Context &context, const TensorValue &value) {
  const Storage &storage = *value.storage;
  Operand operand;
  if (storage.loop != kNone && !value.layout)
    operand.node = storage.loop;
  else
    operand.node = load_loop(context, storage.buffer, value.layout);
  operand.index = value.index ? *value.index : identity_index(value.sizes.size());
  if (value.dtype == storage.dtype)
    return operand;
  LoopNode bits;
  bits.op = Op::to_dtype_bitcast;
  bits.dtype = value.dtype;
  bits.source_dtype = storage.dtype;
  bits.sizes = value.sizes;
  bits.operands = {operand};
  return {add_loop(context, std::move(bits)), identity_index(value.sizes.size())};
}

void assume_equal(Context &context, const graph::EqualSizes &sizes) {
  const auto [a, b, assertion] = sizes;
  if (symbolic::simplify(a - b, *context.ranges).is_integer(0))
    return;
  const Expr condition = symbolic::simplify(graph::negation(graph::unequal(a, b)), *context.ranges);
  // What subgraphs assert is not looked at but for what they define.
  if (symbolic::bounds(condition, *context.ranges).low >= 1 ||
      (context.results != nullptr && !ops::mentions_own_size(context.graph, condition)) ||
      graph::depends_on_data(condition))
    return;
  std::vector<ir::SizeAssertion> &rows = context.module.size_assertions;
  if (std::any_of(rows.begin(), rows.end(),
                  [&](const ir::SizeAssertion &other) { return other.condition == condition; }))
    return;
  rows.push_back({condition, assertion});
}

void assume_equal(Context &context, Expr a, Expr b) {
  if (a == b || (a.is_integer() && b.is_integer())) // the shape rules refuse these
    return;
  const graph::Node &node = context.graph.node(context.current);
  assume_equal(context, {a,
                         b,
                         {node.target + ": sizes " + symbolic::print(a) + " and " +
                              symbolic::print(b) + " are equal",
                          ops::users_name(node), ops::source_line(node)}});
}

Operand broadcast_operand(Context &context, const TensorValue &value, std::span<const Expr> sizes) {
  support::require(value.sizes.size() <= sizes.size(), "lowering", "broadcast to a lower rank");
  const size_t skip = sizes.size() - value.sizes.size();
  std::vector<Expr> index;
  for (size_t k = 0; k < value.sizes.size(); ++k) {
    const bool repeated = value.sizes[k].is_integer(1) && !sizes[skip + k].is_integer(1);
    if (!repeated)
      assume_equal(context, value.sizes[k], sizes[skip + k]);
    index.push_back(repeated ? Expr(0) : ir::variable(skip + k));
  }
  return reindexed(operand_of(context, value), index);
}

Operand reindexed(const Operand &inner, std::span<const Expr> index) {
  symbolic::Substitution replacements;
  for (size_t k = 0; k < index.size(); ++k)
    replacements.emplace(ir::variable(k), index[k]);
  Operand result;
  result.node = inner.node;
  result.index.reserve(inner.index.size());
  for (Expr e : inner.index)
    result.index.push_back(e.is_integer() ? e : symbolic::substitute(e, replacements));
  return result;
}

LoopId constant_loop(Context &context, const tensor::Scalar &value, DType dtype) {
  LoopNode node;
  node.op = Op::constant;
  node.dtype = dtype;
  // Not rounded to a float dtype: PyTorch computes with Python numbers in the dtype of computation.
  // In 8-bit floats nothing is computed.
  node.constant = tensor::is_floating(dtype) && !tensor::is_float8(dtype)
                      ? tensor::Scalar(tensor::to_double(value))
                      : tensor::cast_scalar(value, dtype);
  return add_loop(context, std::move(node));
}

Operand constant_operand(Context &context, const tensor::Scalar &value, DType dtype) {
  return {constant_loop(context, value, dtype), {}};
}

Operand index_operand(Context &context, Expr expr, DType dtype, std::span<const Expr> sizes) {
  if (expr.is_integer())
    return constant_operand(context, tensor::Scalar(expr.value()), dtype);
  LoopNode node;
  node.op = Op::index_expr;
  node.dtype = dtype;
  node.sizes.assign(sizes.begin(), sizes.end());
  node.expr = expr;
  return {add_loop(context, std::move(node)), identity_index(sizes.size())};
}

LoopId elementwise(Context &context, Op op, DType dtype, std::span<const Expr> sizes,
                   std::vector<Operand> operands) {
  LoopNode node;
  node.op = op;
  node.dtype = dtype;
  node.sizes.assign(sizes.begin(), sizes.end());
  node.operands = std::move(operands);
  return add_loop(context, std::move(node));
}

Operand elementwise_operand(Context &context, Op op, DType dtype, std::span<const Expr> sizes,
                            std::vector<Operand> operands) {
  return {elementwise(context, op, dtype, sizes, std::move(operands)),
          identity_index(sizes.size())};
}

Operand masked_operand(Context &context, DType dtype, std::span<const Expr> sizes, Operand mask,
                       Operand value, const tensor::Scalar &elsewhere) {
  LoopNode node;
  node.op = Op::masked;
  node.dtype = dtype;
  node.sizes.assign(sizes.begin(), sizes.end());
  node.operands = {std::move(mask), std::move(value)};
  node.constant = tensor::cast_scalar(elsewhere, dtype);
  return {add_loop(context, std::move(node)), identity_index(sizes.size())};
}

namespace {

/// The index expression that `operand` is known to be, if it lies in [0, extent) wherever the
/// domain `sizes` does.
std::optional<Expr> known_index(const Context &context, const Operand &operand, Expr extent,
                                std::span<const Expr> sizes) {
  const LoopNode &node = context.module.loops[operand.node];
  if (node.op != Op::index_expr)
    return std::nullopt;
  const Expr index = reindexed({operand.node, {node.expr}}, operand.index).index[0];
  symbolic::Ranges ranges = *context.ranges;
  for (size_t k = 0; k < sizes.size(); ++k)
    ranges.set_size(ir::variable(k), sizes[k]);
  const bool inside =
      symbolic::known_nonnegative(index, ranges) && symbolic::known_less(index, extent, ranges);
  return inside ? std::optional<Expr>(index) : std::nullopt;
}

} // namespace

LoopId view_loop(Context &context, DType dtype, std::span<const Expr> sizes, Operand viewed,
                 std::vector<Operand> run_time, std::vector<Expr> extents,
                 const std::vector<uint32_t> &checks) {
  LoopNode node;
  node.op = Op::view;
  node.dtype = dtype;
  node.sizes.assign(sizes.begin(), sizes.end());
  node.operands.emplace_back();
  symbolic::Substitution values; // positions of a range are no run-time indices
  for (size_t k = 0; k < run_time.size(); ++k) {
    if (const std::optional<Expr> known = known_index(context, run_time[k], extents[k], sizes)) {
      values.emplace(ir::operand_value(k + 1), *known);
      continue;
    }
    values.emplace(ir::operand_value(k + 1), ir::operand_value(node.operands.size()));
    uint32_t check = ir::check_at(checks, k);
    node.operands.push_back(unchecked(context, run_time[k], extents[k], check));
    node.indirect_extents.push_back(extents[k]);
    node.checks.push_back(check);
  }
  for (Expr &e : viewed.index)
    e = symbolic::substitute(e, values);
  node.operands[0] = std::move(viewed);
  return add_loop(context, std::move(node));
}

namespace {

LoopId cast_loop(Context &context, const TensorValue &value, DType source, DType dtype) {
  LoopNode node;
  node.op = Op::to_dtype;
  node.dtype = dtype;
  node.source_dtype = source;
  node.sizes = value.sizes;
  node.operands = {operand_of(context, value)};
  return add_loop(context, std::move(node));
}

} // namespace

TensorValue convert(Context &context, const TensorValue &value, DType dtype) {
  if (value.dtype == dtype)
    return value;
  const bool to_discrete = tensor::is_integral(dtype, true);
  const TensorValue source = to_discrete ? rounded(context, value) : value;
  return tensor_of(context, cast_loop(context, source, value.dtype, dtype));
}

namespace {

/// Whether what `node` yields has been rounded to its dtype, whatever it is fused with. A buffer
/// that the program computes is rounded in memory; what computes it in the same kernel hands it on
/// as it is, in f32.
bool is_exact(const Context &context, const LoopNode &node) {
  switch (node.op) {
  case Op::constant:
  case Op::to_dtype:
    return true;
  case Op::load:
    return context.module.buffer(node.buffer).role != ir::Buffer::Role::computed;
  case Op::view: {
    const LoopNode &viewed = context.module.loops[node.operands[0].node];
    return viewed.op == Op::load && is_exact(context, viewed);
  }
  default:
    return false;
  }
}

} // namespace

TensorValue rounded(Context &context, const TensorValue &value) {
  if (!tensor::is_reduced_float(value.dtype))
    return value;
  const Storage &storage = *value.storage;
  const bool exact = storage.loop == kNone
                         ? context.module.buffer(storage.buffer).role != ir::Buffer::Role::computed
                         : is_exact(context, context.module.loops[storage.loop]);
  return exact ? value : tensor_of(context, cast_loop(context, value, DType::f32, value.dtype));
}

} // namespace tsc::lowering
