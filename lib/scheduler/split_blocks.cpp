// Blocks have done their work once the order is settled: each node is a step of its own again.
#include "scheduler/steps.h"

namespace tsc::scheduler {

void split_blocks(State &state) {
  if (state.blocks.empty())
    return;
  std::vector<bool> in_block(state.schedule.nodes.size(), false);
  for (const std::vector<NodeId> &block : state.blocks)
    for (const NodeId member : block)
      in_block[member] = true;
  std::vector<Group> groups;
  for (Group &group : state.schedule.groups) {
    if (!in_block[group.members[0]]) {
      groups.push_back(std::move(group));
      continue;
    }
    for (const NodeId member : group.members)
      groups.push_back(group_of_one(state.schedule, member));
  }
  state.schedule.groups = std::move(groups);
}

} // namespace tsc::scheduler
