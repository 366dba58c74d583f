#include "lowering/in_place.h"

#include "ir/body.h"
#include "lowering/build.h"
#include "lowering/realize.h"

#include <algorithm>
#include <unordered_set>

namespace tsc::lowering {

namespace {

using graph::NodeId;

/// True if evaluating `loop` reads the memory of `input`.
bool reads(const Context &context, LoopId loop, BufferId input) {
  std::vector<LoopId> stack = {loop};
  std::unordered_set<LoopId> seen = {loop};
  while (!stack.empty()) {
    const LoopNode &node = context.module.loops[stack.back()];
    stack.pop_back();
    if (node.op == Op::load && context.module.storage_of(node.buffer) == input)
      return true;
    for (const Operand &operand : node.operands)
      if (operand.node != kNone && seen.insert(operand.node).second)
        stack.push_back(operand.node);
  }
  return false;
}

/// Computes now what would be read from memory that is about to change.
void preserve(Context &context, TensorValue &value) {
  if (value.storage->realized())
    value = copy(context, value);
  else
    realize(context, *value.storage);
}

class Preserver {
public:
  Preserver(Context &context, NodeId input, BufferId memory)
      : context_(context), input_(input), memory_(memory), now_(context.current) {}

  /// Everything that depends on the input without memory of its own and is used after this node.
  /// What named the memory before its last update was taken care of then.
  void run() {
    std::vector<NodeId> &names = context_.input_memory.at(input_).names;
    for (const NodeId node : names)
      visit(node);
    names.clear();
    while (!open_.empty()) {
      const NodeId node = open_.back();
      open_.pop_back();
      if (keep_if_needed(node))
        for (const NodeId user : context_.users[node])
          visit(user);
    }
    context_.current = now_;
  }

private:
  Context &context_;
  NodeId input_;
  BufferId memory_;
  NodeId now_;
  std::vector<NodeId> open_;
  std::unordered_set<NodeId> visited_;

  void visit(NodeId node) {
    if (node < now_ && visited_.insert(node).second)
      open_.push_back(node);
  }

  /// True if what was computed from the value before it had memory of its own may read what it
  /// reads.
  bool was_inlined(const TensorValue &value) const {
    if (!value.storage->realized())
      return false;
    const ir::OperationId operation = context_.module.buffer(value.storage->buffer).operation;
    return operation != kNone &&
           std::holds_alternative<ir::Pointwise>(context_.module.operations[operation].kind);
  }

  /// True if the node's value, or one that was computed from it, may read the memory.
  bool keep_if_needed(NodeId node) {
    bool any = false;
    const bool needed = is_needed(node);
    context_.current = node;
    const auto keep = [&](TensorValue &value) {
      any = any || was_inlined(value);
      if (reads(context_, value, memory_)) {
        any = true;
        if (needed)
          preserve(context_, value);
      }
    };
    if (auto *tensor = std::get_if<TensorValue>(&context_.values[node]))
      keep(*tensor);
    else if (auto *list = std::get_if<std::vector<TensorValue>>(&context_.values[node]))
      std::for_each(list->begin(), list->end(), keep);
    return any;
  }

  /// Used after the current node, other than by the update of a whole whose region is being
  /// updated: that one takes no element of its old value that changes here.
  bool is_needed(NodeId node) const {
    const std::vector<NodeId> &users = context_.users[node];
    return std::any_of(users.begin(), users.end(), [&](NodeId user) {
      if (user <= now_)
        return false;
      const auto update = context_.in_place.find(user);
      return update == context_.in_place.end() || !update->second.region_is_updated ||
             update->second.input != input_ || context_.graph.node(user).args[0].node()->id != node;
    });
  }
};

/// Every read of the memory is of the element that is stored, and each element is stored once.
bool reads_only_what_it_stores(Context &context, const ir::Scatter &scatter, BufferId target) {
  if (!scatter.indices.empty() || scatter.mode != ir::StoreMode::plain)
    return false;
  ir::Operation operation;
  operation.kind = scatter;
  operation.outputs = {target};
  const ir::LoopBody body = ir::trace(context.module, operation);
  const auto store = std::find_if(body.ops.begin(), body.ops.end(),
                                  [](const ir::BodyOp &op) { return op.op == Op::store; });
  const BufferId memory = context.module.storage_of(target);
  return std::all_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
    return op.op != Op::load || context.module.storage_of(op.buffer) != memory ||
           body.indices[op.index] == body.indices[store->index];
  });
}

void compute_before(Context &context, Operand &operand, std::span<const Expr> sizes,
                    BufferId memory) {
  if (!reads(context, operand.node, memory))
    return;
  const DType dtype = context.module.loops[operand.node].dtype;
  TensorValue value = tensor_of(context, view_loop(context, dtype, sizes, operand));
  realize(context, *value.storage);
  operand = operand_of(context, value);
}

/// `buffer`, which names the input's memory, seen at `place`.
TensorValue seen_at(Context &context, BufferId buffer, const TensorValue &place) {
  TensorValue result = tensor_of_buffer(context, buffer);
  if (!place.index)
    return result;
  result.sizes = place.sizes;
  result.index = place.index;
  if (const std::optional<ir::BufferView> view = strided_view(context, result)) {
    result.index.reset();
    result.layout = view->layout;
  }
  return result;
}

} // namespace

bool reads(const Context &context, const TensorValue &value, BufferId buffer) {
  const Storage &storage = *value.storage;
  return storage.loop == kNone ? context.module.storage_of(storage.buffer) == buffer
                               : reads(context, storage.loop, buffer);
}

bool reads(const Context &context, const Operand &operand, BufferId buffer) {
  return reads(context, operand.node, buffer);
}

BufferId present_buffer(const Context &context, BufferId buffer) {
  const auto found = context.present_buffers.find(buffer);
  return found == context.present_buffers.end() ? buffer : found->second;
}

std::optional<TensorValue> scatter_in_place(Context &context, const TensorValue &self,
                                            ir::Scatter scatter) {
  const auto found = context.in_place.find(context.current);
  if (found == context.in_place.end() || !self.storage->realized() ||
      context.module.storage_of(self.storage->buffer) !=
          context.input_memory.at(found->second.input).buffer)
    return std::nullopt;
  const InPlaceUpdate &update = found->second;
  const BufferId memory = context.input_memory.at(update.input).buffer;
  Preserver(context, update.input, memory).run();
  if (update.place.index)
    scatter.index = reindexed({kNone, *update.place.index}, scatter.index).index;
  const BufferId target = present_buffer(context, memory);
  if (!reads_only_what_it_stores(context, scatter, target)) {
    compute_before(context, scatter.value, scatter.sizes, memory);
    for (Operand &index : scatter.indices)
      compute_before(context, index, scatter.sizes, memory);
  }
  const BufferId after = mutate(context, target, std::move(scatter));
  context.present_buffers[memory] = after;
  context.input_memory.at(update.input).names.push_back(context.current);
  return seen_at(context, after, update.place);
}

std::optional<TensorValue> updated_in_place(Context &context, const TensorValue &source) {
  const auto found = context.in_place.find(context.current);
  if (found == context.in_place.end() || !found->second.region_is_updated ||
      !source.storage->realized())
    return std::nullopt;
  const BufferId memory = context.input_memory.at(found->second.input).buffer;
  if (context.module.storage_of(source.storage->buffer) != memory)
    return std::nullopt;
  context.input_memory.at(found->second.input).names.push_back(context.current);
  return seen_at(context, present_buffer(context, memory), found->second.place);
}

} // namespace tsc::lowering
