#include "scheduler/dependency.h"
#include "scheduler/steps.h"

#include <numeric>

namespace tsc::scheduler {

namespace {

/// Lists of users; buffers that share storage share one list.
class UserLists {
public:
  explicit UserLists(const ir::Module &module) : owner_(module.buffers.size()) {
    std::iota(owner_.begin(), owner_.end(), BufferId{0});
    lists_.resize(owner_.size());
    for (const ir::Operation &operation : module.operations) {
      for (const BufferId output : operation.outputs)
        for (const BufferId alias : module.buffer(output).aliases)
          owner_[find(output)] = find(alias);
    }
  }

  /// A node's entries are added one after the other, so an earlier one of the same node is the
  /// last.
  void add(BufferId buffer, const User &user) {
    std::vector<User> &list = lists_[find(buffer)];
    if (!list.empty() && list.back().node == user.node) {
      list.back().can_inplace = list.back().can_inplace && user.can_inplace;
      list.back().is_weak = list.back().is_weak && user.is_weak;
    } else {
      list.push_back(user);
    }
  }

  const std::vector<User> &of(BufferId buffer) { return lists_[find(buffer)]; }

private:
  std::vector<BufferId> owner_;
  std::vector<std::vector<User>> lists_;

  BufferId find(BufferId buffer) {
    while (owner_[buffer] != buffer) {
      owner_[buffer] = owner_[owner_[buffer]];
      buffer = owner_[buffer];
    }
    return buffer;
  }
};

/// True if a node that reads `read` may write its result over what it reads: one write, at the same
/// index over the same loops.
bool can_inplace(const ir::Module &module, const Node &node, const Dependency &read) {
  const auto *read_memory = std::get_if<MemoryDep>(&read);
  if (node.node_class != NodeClass::scheduler || !read_memory || node.writes.size() != 1)
    return false;
  for (const BufferId output : module.operations[node.operation].outputs)
    if (!module.buffer(output).aliases.empty())
      return false;
  const auto &write = std::get<MemoryDep>(node.writes[0]);
  return read_memory->index == write.index && read_memory->sizes == write.sizes;
}

/// How a node stores, if it stores once.
ir::StoreMode mode_of(const Node &node) {
  const auto *write = node.writes.size() == 1 ? std::get_if<MemoryDep>(&node.writes[0]) : nullptr;
  return write ? write->mode : ir::StoreMode::plain;
}

class DependencyBuilder {
public:
  explicit DependencyBuilder(State &state) : state_(state), users_(state.module) {}

  void run() {
    for (NodeId id = 0; id < state_.schedule.nodes.size(); ++id) {
      order_mutations(id);
      add_reads(id);
      rename_accesses(id);
      record_mutations(id);
    }
    keep_outputs();
    for (BufferId buffer = 0; buffer < state_.schedule.users.size(); ++buffer)
      state_.schedule.users[buffer] = users_.of(buffer);
  }

private:
  State &state_;
  UserLists users_;
  std::vector<BufferId> mutated_; // inputs and constants, in the order of their first mutation

  void add_user(BufferId buffer, const User &user) {
    users_.add(state_.current_name(buffer), user);
  }

  const std::vector<BufferId> &outputs_of(NodeId id) const { return state_.operation(id).outputs; }

  /// A node that mutates a buffer runs after the buffer's writer and after all its readers so far.
  void order_mutations(NodeId id) {
    Node &node = state_.schedule.nodes[id];
    for (const BufferId output : outputs_of(id)) {
      if (state_.module.buffer(output).mutates == ir::kNone)
        continue;
      const BufferId target = state_.current_name(state_.module.buffer(output).mutates);
      add_user(target, {id, false, false});
      node.reads.push_back(StarDep{target, mode_of(node)});
      const size_t count = users_.of(target).size();
      for (size_t i = 0; i < count; ++i) {
        const NodeId reader = users_.of(target)[i].node;
        if (reader == id)
          continue;
        for (const BufferId other : outputs_of(reader)) {
          const BufferId current = state_.current_name(other);
          node.reads.push_back(WeakDep{current, output});
          add_user(current, {id, false, true});
        }
      }
    }
  }

  void add_reads(NodeId id) {
    const Node &node = state_.schedule.nodes[id];
    for (const Dependency &read : node.reads)
      if (!is_weak(read))
        add_user(buffer_of(read), {id, can_inplace(state_.module, node, read), false});
  }

  void rename_accesses(NodeId id) {
    Node &node = state_.schedule.nodes[id];
    for (std::vector<Dependency> *list : {&node.reads, &node.writes}) {
      for (Dependency &dependency : *list)
        set_buffer(dependency, state_.current_name(buffer_of(dependency)));
      remove_duplicates(*list);
    }
  }

  void record_mutations(NodeId id) {
    for (const BufferId output : outputs_of(id)) {
      const BufferId target = state_.module.buffer(output).mutates;
      if (target == ir::kNone)
        continue;
      if (state_.producer[target] == ir::kNone && state_.renamed[target] == ir::kNone)
        mutated_.push_back(target);
      state_.renamed[state_.current_name(target)] = output;
      state_.renamed[target] = output; // a shortcut: chains stay short
    }
  }

  void keep_outputs() {
    const User output{ir::kNone, false, false};
    for (const ir::Output &value : state_.module.outputs)
      if (const auto *view = std::get_if<ir::BufferView>(&value.value))
        add_user(view->buffer, output);
    for (const BufferId buffer : mutated_)
      add_user(buffer, output);
  }
};

} // namespace

void compute_dependencies(State &state) { DependencyBuilder(state).run(); }

} // namespace tsc::scheduler
