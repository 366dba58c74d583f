// Operators that write at run-time indices: into a copy of their input, or into the input itself
// where it is mutated.
#include "ir/body.h"
#include "lowering/build.h"
#include "lowering/checks.h"
#include "lowering/concatenation.h"
#include "lowering/in_place.h"
#include "lowering/indices.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <map>

namespace tsc::lowering {

namespace {

/// True if `self` is the memory that another scatter made its copy in, and nobody else uses its
/// result.
bool is_last_use_of_copy(const Context &context, const TensorValue &self) {
  const graph::NodeRef *node = context.graph.node(context.current).args[0].node();
  if (node == nullptr || self.is_view() || !self.storage->realized() ||
      context.users[node->id].size() != 1)
    return false;
  const ir::Buffer &buffer = context.module.buffer(self.storage->buffer);
  const BufferId memory = context.module.storage_of(self.storage->buffer);
  if (buffer.mutates == kNone || context.module.buffer(memory).role != ir::Buffer::Role::computed)
    return false;
  // The node that made it, not one that yields it again.
  return context.module.operations[buffer.operation].origins == std::vector<uint32_t>{node->id};
}

/// True if what `scatter` stores, or where, is read from `memory`.
bool reads(const Context &context, const ir::Scatter &scatter, BufferId memory) {
  return reads(context, scatter.value, memory) ||
         std::any_of(scatter.indices.begin(), scatter.indices.end(),
                     [&](const Operand &index) { return reads(context, index, memory); });
}

/// Runs `scatter` on a copy of `self`, or on `self` where it may be overwritten; the result is that
/// memory afterwards.
TensorValue scatter_into(Context &context, const TensorValue &self, ir::Scatter scatter) {
  if (std::optional<TensorValue> result = scatter_in_place(context, self, scatter))
    return *result;
  // Nobody else's, but its own source or indices may be read from it at other places.
  if (is_last_use_of_copy(context, self) &&
      !reads(context, scatter, context.module.storage_of(self.storage->buffer)))
    return tensor_of_buffer(context, mutate(context, self.storage->buffer, std::move(scatter)));
  const BufferId target = copy(context, self).storage->buffer;
  if (!store_in_slice(context, target))
    decide_layout_as(context, target, tensor::contiguous_strides(self.sizes));
  return tensor_of_buffer(context, mutate(context, target, std::move(scatter)));
}

/// The value to write, over `sizes`, in the dtype of `self`.
Operand source_operand(Context &context, const ops::Call &call, std::string_view parameter,
                       const TensorValue &self, std::span<const Expr> sizes) {
  const graph::Argument &argument = call[parameter];
  if (argument.node() == nullptr)
    return constant_operand(context, call.scalar(parameter), self.dtype);
  const TensorValue source = convert(context, tensor_value(context, call, argument), self.dtype);
  if (source.sizes.size() == sizes.size() && !sizes.empty())
    return operand_of(context, source); // may reach beyond the index: only its first part is read
  return broadcast_operand(context, source, sizes);
}

/// True if the value reads no memory and draws nothing.
bool is_constant(const Context &context, const TensorValue &value) {
  if (value.storage->loop == kNone)
    return false;
  const ir::LoopBody body = ir::trace_value(context.module, value.storage->loop);
  return std::none_of(body.ops.begin(), body.ops.end(), [](const ir::BodyOp &op) {
    return op.op == Op::load || ir::is_random(op.op);
  });
}

/// A scatter that writes one place of each row of a constant, as the gradient of a loss by classes
/// does: at each place, what is written if the index is this place, else the constant.
std::optional<TensorValue> choose_by_position(Context &context, const ops::Call &call,
                                              std::string_view source, ir::StoreMode mode,
                                              const TensorValue &self, const TensorValue &indices) {
  const std::vector<Expr> &sizes = self.sizes;
  if (!context.policy.scatters_choose || sizes.empty() || self.dtype == DType::boolean ||
      (mode != ir::StoreMode::plain && mode != ir::StoreMode::atomic_add) ||
      !is_constant(context, self))
    return std::nullopt;
  const size_t dimension = dimension_argument(call, "dim", sizes.size());
  for (size_t k = 0; k < sizes.size(); ++k)
    if (k == dimension ? !indices.sizes[k].is_integer(1) : indices.sizes[k] != sizes[k])
      return std::nullopt;
  std::vector<Expr> row = identity_index(sizes.size());
  row[dimension] = 0;
  const Expr extent = sizes[dimension];
  uint32_t check = index_check(context, call["index"], NegativeIndex::fails);
  const Operand index = reindexed(
      unchecked(context, operand_of(context, convert(context, indices, DType::i64)), extent, check),
      row);
  const Operand held = {view_loop(context, DType::i64, sizes, any_position(context, extent),
                                  {index}, {extent}, {check}),
                        identity_index(sizes.size())};
  const Operand position = index_operand(context, ir::variable(dimension), DType::i64, sizes);
  const Operand is_there =
      elementwise_operand(context, Op::eq, DType::boolean, sizes, {position, held});
  const Operand before = operand_of(context, self);
  Operand written = reindexed(source_operand(context, call, source, self, indices.sizes), row);
  if (mode == ir::StoreMode::atomic_add)
    written = elementwise_operand(context, Op::add, self.dtype, sizes, {before, written});
  return tensor_of(
      context,
      elementwise_operand(context, Op::where, self.dtype, sizes, {is_there, written, before}).node);
}

TensorValue scatter_along(Context &context, const ops::Call &call, std::string_view source,
                          ir::StoreMode mode) {
  const TensorValue self = tensor_argument(context, call, "self");
  const TensorValue indices = tensor_argument(context, call, "index");
  if (symbolic::numel(indices.sizes).is_integer(0))
    return self;
  if (std::optional<TensorValue> chosen =
          choose_by_position(context, call, source, mode, self, indices))
    return *chosen;
  ir::Scatter scatter;
  scatter.sizes = indices.sizes;
  scatter.index = identity_index(self.sizes.size());
  scatter.extents = {Expr(1)}; // of rank 0: the index is 0
  if (!self.sizes.empty()) {
    const size_t dimension = dimension_argument(call, "dim", self.sizes.size());
    scatter.index[dimension] = ir::operand_value(1);
    scatter.extents = {self.sizes[dimension]};
  }
  uint32_t check = index_check(context, call["index"], NegativeIndex::fails);
  scatter.indices = {unchecked(context, operand_of(context, indices), scatter.extents[0], check)};
  scatter.checks = {check};
  scatter.value = source_operand(context, call, source, self, scatter.sizes);
  scatter.mode = mode;
  return scatter_into(context, self, std::move(scatter));
}

NodeValue scatter(Context &context, const ops::Call &call) {
  const bool from_tensor = call.node().target == "aten.scatter.src";
  return scatter_along(context, call, from_tensor ? "src" : "value", ir::StoreMode::plain);
}

NodeValue scatter_add(Context &context, const ops::Call &call) {
  return scatter_along(context, call, "src", ir::StoreMode::atomic_add);
}

NodeValue scatter_reduce(Context &context, const ops::Call &call) {
  static const std::map<std::string, ir::StoreMode> modes = {{"sum", ir::StoreMode::atomic_add},
                                                             {"prod", ir::StoreMode::atomic_mul},
                                                             {"amax", ir::StoreMode::atomic_max},
                                                             {"amin", ir::StoreMode::atomic_min}};
  const std::string reduce = call.string("reduce").value_or("");
  const auto mode = modes.find(reduce);
  if (mode == modes.end() || !call.boolean("include_self")) {
    throw support::UserError(
        support::ExitCode::unsupported,
        {.code = "TSC-O064",
         .message = "scatter_reduce with reduce='" + reduce + "' is not supported",
         .node = call.node().name,
         .next_step = "use sum, prod, mean, amax or amin"});
  }
  return scatter_along(context, call, "src", mode->second);
}

NodeValue index_put(Context &context, const ops::Call &call) {
  const TensorValue self = tensor_argument(context, call, "self");
  const IndexedShape shape = indexed_shape(context, call, self);
  const RuntimeIndices indices =
      runtime_indices(context, call, self, shape.index_sizes, shape.first_dimension);
  ir::Scatter scatter;
  for (size_t k = 0; k < shape.first_dimension; ++k)
    scatter.sizes.push_back(self.sizes[k]);
  scatter.sizes.insert(scatter.sizes.end(), shape.index_sizes.begin(), shape.index_sizes.end());
  for (size_t k = 0; k < self.sizes.size(); ++k) {
    const bool whole = !indices.dimensions[k].has_value();
    if (whole && *shape.positions[k] >= shape.first_dimension)
      scatter.sizes.push_back(self.sizes[k]);
    scatter.index.push_back(whole ? ir::variable(*shape.positions[k])
                                  : ir::operand_value(*indices.dimensions[k]));
  }
  if (symbolic::numel(scatter.sizes).is_integer(0))
    return self;
  scatter.extents = indices.extents;
  for (size_t k = 0; k < indices.operands.size(); ++k) {
    uint32_t check = indices.checks[k];
    scatter.indices.push_back(unchecked(context, indices.operands[k], scatter.extents[k], check));
    scatter.checks.push_back(check);
  }
  const TensorValue values = convert(context, tensor_argument(context, call, "values"), self.dtype);
  scatter.value = broadcast_operand(context, values, scatter.sizes);
  scatter.mode = call.boolean("accumulate") ? ir::StoreMode::atomic_add : ir::StoreMode::plain;
  return scatter_into(context, self, std::move(scatter));
}

} // namespace

void add_scatters(Registry &registry) {
  registry["scatter"] = scatter;
  registry["scatter_add"] = scatter_add;
  registry["scatter_reduce"] = scatter_reduce;
  registry["index_put"] = index_put;
}

} // namespace tsc::lowering
