#include "ops/passes/memory.h"

#include "ops/passes/write_through.h"
#include "ops/table/shape_rules.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

namespace tsc::ops {

namespace {

constexpr std::string_view kStrided = "aten.as_strided.default";

} // namespace

void Memory::note(NodeId id, const TensorMeta *meta) {
  Slot &slot = slot_of(id);
  if (meta != nullptr && !slot.meta)
    slot.meta = *meta;
}

TensorMeta Memory::meta(NodeId slot) {
  const Slot &state = slot_of(slot);
  return state.meta ? *state.meta : *builder_->graph().node(slot).value->tensor();
}

NodeId Memory::present(NodeId slot) {
  std::vector<NodeId> stale; // innermost last
  NodeId at = slot;
  while (true) {
    const Slot &state = slot_of(at);
    if (!state.viewed || state.version == slot_of(state.root).version)
      break;
    stale.push_back(at);
    at = *state.viewed;
  }
  for (size_t i = stale.size(); i-- > 0;) {
    Node view = builder_->graph().node(stale[i]);
    const NodeId viewed = *slot_of(stale[i]).viewed;
    view.args[0] =
        NodeRef{view.target == kStrided ? in_own_strides(viewed) : slot_of(viewed).value};
    const Argument again = builder_->emit(view.target, view.args, view.kwargs);
    set_value(stale[i], again.node()->id, slot_of(slot_of(stale[i]).root).version);
  }
  return slot_of(slot).value;
}

void Memory::write(NodeId slot, NodeId value, const Call &call) {
  const NodeId root = slot_of(slot).root;
  NodeId at = slot, written = value;
  std::vector<std::pair<NodeId, NodeId>> updates;
  while (slot_of(at).viewed) {
    const NodeId viewed = *slot_of(at).viewed;
    updates.emplace_back(at, written);
    const Node view = builder_->graph().node(at);
    const NodeId before = view.target == kStrided ? in_own_strides(viewed) : present(viewed);
    const WrittenView through{view, meta(viewed), meta(at)};
    written = write_through(*builder_, through, before, written, call);
    if (repeats_elements(through))
      updates.clear(); // what was not written itself changed as well: taken anew
    at = viewed;
  }
  const size_t version = slot_of(root).version + 1;
  set_value(root, written, version);
  for (const auto &update : updates)
    set_value(update.first, update.second, version);
}

size_t Memory::writes(NodeId slot) { return slot_of(root(slot)).version; }

NodeId Memory::viewed_value(NodeId slot, std::string_view target) {
  return target == kStrided ? in_own_strides(root(slot)) : present(slot);
}

Arguments Memory::strided_arguments(NodeId slot, const Call &call) {
  const Argument offset =
      call.has("storage_offset") ? call["storage_offset"] : size_argument(meta(slot).layout.offset);
  return {NodeRef{viewed_value(slot, kStrided)}, call["size"], call["stride"], offset};
}

void Memory::set_value(NodeId slot, NodeId value, size_t version) {
  Slot &state = slot_of(slot);
  state.value = value;
  state.version = version;
  owners_[value] = slot;
}

/// Slots are made when they are first looked at. Chains of views are followed to the first known
/// slot.
Memory::Slot &Memory::slot_of(NodeId id) {
  auto found = slots_.find(id);
  if (found != slots_.end())
    return found->second;
  std::vector<NodeId> chain = {id};
  while (const std::optional<NodeId> viewed = argument_viewed_by(chain.back())) {
    chain.push_back(*viewed);
    if (slots_.count(*viewed) != 0)
      break;
  }
  for (size_t i = chain.size(); i-- > 0;) {
    if (slots_.count(chain[i]) != 0)
      continue;
    Slot slot;
    slot.viewed = argument_viewed_by(chain[i]);
    slot.value = chain[i];
    slot.root = slot.viewed ? slots_.at(*slot.viewed).root : chain[i];
    slot.version = slot.viewed ? slots_.at(slot.root).version : 0;
    if (slot.viewed && builder_->graph().node(chain[i]).target == kStrided)
      slot.viewed = slot.root; // offsets are into the whole memory
    slots_.emplace(chain[i], slot);
  }
  return slots_.at(id);
}

std::optional<NodeId> Memory::argument_viewed_by(NodeId id) const {
  const Node &node = builder_->graph().node(id);
  if (node.kind != graph::NodeKind::call_function || node.args.empty() || !node.args[0].node())
    return std::nullopt;
  if (find_operator(node.target)->effect != Effect::view)
    return std::nullopt;
  const NodeId viewed = node.args[0].node()->id;
  const auto owner = owners_.find(viewed);
  return owner == owners_.end() ? viewed : owner->second;
}

/// The present value of `root`'s memory with the strides that the memory has.
NodeId Memory::in_own_strides(NodeId root) {
  const NodeId value = slot_of(root).value;
  const TensorMeta own = meta(root);
  if (builder_->meta(NodeRef{value}).layout.strides == own.layout.strides)
    return value;
  if (!is_non_overlapping_and_dense(own.layout, builder_->ranges()))
    throw support::UserError(
        support::ExitCode::unsupported,
        support::Diagnostic{"TSC-O071",
                            "as_strided of memory with gaps that has been written to is not "
                            "supported",
                            "", "", source_->name, source_line(*source_),
                            "take slices of the tensor, or call contiguous() before writing"});
  const std::vector<size_t> order = tensor::stride_order(own.layout.strides);
  std::vector<size_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[order[i]] = i;
  Argument result = builder_->call("aten.permute.default", {NodeRef{value}, ints_argument(order)});
  result = builder_->call("aten.clone.default", {result},
                          {{"memory_format", graph::MemoryFormat::contiguous}});
  result = builder_->call("aten.permute.default", {result, ints_argument(inverse)});
  set_value(root, result.node()->id, slot_of(root).version); // views of it are of this memory
  return result.node()->id;
}

} // namespace tsc::ops
