// Which nodes of a graph under construction see which memory, and which node holds its present
// value.
#pragma once

#include "ops/table/builder.h"

#include <unordered_map>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeRef;

/// Nodes of the new graph that stand for memory ("slots"), each with the node that holds its
/// present value. A view remembers the slot that it views; when its memory has been written to
/// since, it is taken anew from there.
class Memory {
public:
  explicit Memory(GraphBuilder &builder) : builder_(&builder) {}

  /// The node that is being replaced: errors name it. It must outlive what is done for it.
  void set_source(const Node &node) { source_ = &node; }

  /// Makes the slot of a node that was just appended: a view is of the memory as it is now. `meta`
  /// says how the tensor lies in PyTorch, where that is known: values that stand for written memory
  /// may lie otherwise.
  void note(NodeId id, const TensorMeta *meta = nullptr);
  /// How the tensor of `slot` lies in PyTorch.
  TensorMeta meta(NodeId slot);
  /// The node that holds the present value of `slot`'s memory, seen as `slot` sees it.
  NodeId present(NodeId slot);
  /// `value` is written to the memory that `slot` sees.
  void write(NodeId slot, NodeId value, const Call &call);

  /// Whether anything was written to the memory that `slot` sees.
  bool was_written(NodeId slot) { return writes(slot) != 0; }
  /// How often.
  size_t writes(NodeId slot);
  /// The slot of the whole memory that `slot` sees.
  NodeId root(NodeId slot) { return slot_of(slot).root; }
  /// What a view of `slot` by the operator `target` is a view of: the present value of `slot`, or
  /// for `aten.as_strided`, whose offset is into the whole memory, that of the memory in its own
  /// strides.
  NodeId viewed_value(NodeId slot, std::string_view target);
  /// The arguments of `aten.as_strided` on `slot`, over `viewed_value`.
  Arguments strided_arguments(NodeId slot, const Call &call);

private:
  struct Slot {
    std::optional<NodeId> viewed; // of a view: the slot that it views
    NodeId root = 0;
    NodeId value = 0;
    size_t version = 0; // of the root when `value` was taken; a root's: how often it was written to
    std::optional<TensorMeta> meta; // none: the node's own
  };
  GraphBuilder *builder_;
  const Node *source_ = nullptr;
  std::unordered_map<NodeId, Slot> slots_;
  std::unordered_map<NodeId, NodeId> owners_; // a node that holds a slot's value -> the slot

  void set_value(NodeId slot, NodeId value, size_t version);
  Slot &slot_of(NodeId id);
  std::optional<NodeId> argument_viewed_by(NodeId id) const;
  NodeId in_own_strides(NodeId root);
};

} // namespace tsc::ops
