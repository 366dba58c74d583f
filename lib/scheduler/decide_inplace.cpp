#include "scheduler/dependency.h"
#include "scheduler/steps.h"

#include <algorithm>
#include <map>

namespace tsc::scheduler {

namespace {

class InplaceDecider {
public:
  explicit InplaceDecider(State &state)
      : state_(state), group_of_(state.schedule.nodes.size(), ir::kNone) {
    for (uint32_t i = 0; i < state.schedule.groups.size(); ++i)
      for (const NodeId member : state.schedule.groups[i].members)
        group_of_[member] = i;
  }

  void run() {
    for (Group &group : state_.schedule.groups)
      if (group.node_class == NodeClass::scheduler)
        decide(group, last_pass(group));
      else if (group.parts && group.parts->epilogue)
        decide(group, group.parts->epilogue->members);
  }

private:
  State &state_;
  std::vector<uint32_t> group_of_;

  const ir::Buffer &buffer(BufferId id) const { return state_.module.buffer(id); }

  static bool contains(const std::vector<BufferId> &sorted, BufferId id) {
    return std::binary_search(sorted.begin(), sorted.end(), id);
  }

  void decide(Group &group, const std::vector<NodeId> &candidates) {
    std::vector<BufferId> taken;
    for (const NodeId member : candidates) {
      const Node &node = state_.schedule.nodes[member];
      if (node.writes.size() != 1)
        continue;
      const BufferId output = buffer_of(node.writes[0]);
      if (!state_.owns_memory(output) || contains(group.internal_buffers, output))
        continue;
      for (const Dependency &read : node.reads) {
        const BufferId input = buffer_of(read);
        if (std::find(taken.begin(), taken.end(), input) == taken.end() &&
            may_take_over(group, member, read, output)) {
          group.inplace.emplace_back(output, input);
          taken.push_back(input);
          break;
        }
      }
    }
  }

  /// Members that run after all reductions that others wait for, in order. A kernel walks its rows
  /// once for each such reduction, and an earlier walk may be followed by one that reads the input
  /// again.
  std::vector<NodeId> last_pass(const Group &group) const {
    std::map<NodeId, size_t>
        pass; // walks over the row that must be complete before the member's own
    size_t last = 0;
    for (const NodeId member : group.members) {
      size_t own = 0;
      for (const NodeId predecessor : state_.schedule.nodes[member].ancestors_hint) {
        const auto found = pass.find(predecessor);
        if (found == pass.end())
          continue;
        const bool reduces = state_.schedule.nodes[predecessor].body.is_reduction();
        own = std::max(own, found->second + (reduces ? 1 : 0));
      }
      pass[member] = own;
      last = std::max(last, own);
    }
    std::vector<NodeId> members;
    for (const NodeId member : group.members)
      if (pass[member] == last)
        members.push_back(member);
    return members;
  }

  /// The input dies in this group, `member` is the last to read it, at the element that it writes;
  /// all other members that read it do so at the same element, and before, because `member` waits
  /// for their results.
  bool may_take_over(const Group &group, NodeId member, const Dependency &read,
                     BufferId output) const {
    const BufferId input = buffer_of(read);
    if (!std::holds_alternative<MemoryDep>(read) || !state_.owns_memory(input) ||
        contains(group.internal_buffers, input) || !contains(group.last_uses, input))
      return false;
    const NodeId producer = state_.producer[input];
    if (group_of_[producer] == group_of_[member] ||
        state_.schedule.nodes[producer].node_class == NodeClass::nop)
      return false;
    const ir::Buffer &from = buffer(input), &to = buffer(output);
    if (from.dtype != to.dtype || !(from.device == to.device) ||
        from.layout.storage_size() != to.layout.storage_size() ||
        from.layout.offset != to.layout.offset)
      return false;
    const std::vector<NodeId> before = members_before(group, member);
    for (const User &user : state_.schedule.users[input]) {
      if (user.node == ir::kNone || runs_beside(user.node, member))
        return false;
      if (group_of_[user.node] == group_of_[member] && !finishes(group, user.node))
        return false;
      if (user.node == member) {
        if (!user.can_inplace)
          return false;
      } else if (group_of_[user.node] == group_of_[member] &&
                 (!contains(before, user.node) || !reads_same(user.node, read))) {
        return false;
      }
    }
    return true;
  }

  /// False of what a product is computed from: other blocks still read it when one stores results.
  static bool finishes(const Group &group, NodeId member) {
    if (!group.parts)
      return true;
    const std::vector<NodeId> &members = group.parts->epilogue->members;
    return std::find(members.begin(), members.end(), member) != members.end();
  }

  /// In another group of one launch: nobody knows which of the two comes first.
  bool runs_beside(NodeId a, NodeId b) const {
    const uint32_t list = state_.schedule.groups[group_of_[a]].list;
    return group_of_[a] != group_of_[b] && list != ir::kNone &&
           list == state_.schedule.groups[group_of_[b]].list;
  }

  bool reads_same(NodeId reader, const Dependency &read) const {
    for (const Dependency &other : state_.schedule.nodes[reader].reads)
      if (buffer_of(other) == buffer_of(read) && !(other == read))
        return false;
    return true;
  }

  /// Members that `member` waits for, ascending.
  std::vector<NodeId> members_before(const Group &group, NodeId member) const {
    std::vector<NodeId> found = {member};
    for (size_t i = 0; i < found.size(); ++i) {
      for (const NodeId predecessor : state_.schedule.nodes[found[i]].ancestors_hint)
        if (group_of_[predecessor] == group_of_[group.members[0]] &&
            std::find(found.begin(), found.end(), predecessor) == found.end())
          found.push_back(predecessor);
    }
    std::sort(found.begin(), found.end());
    return found;
  }
};

} // namespace

void decide_inplace(State &state) { InplaceDecider(state).run(); }

} // namespace tsc::scheduler
