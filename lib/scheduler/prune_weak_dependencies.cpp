#include "scheduler/dependency.h"
#include "scheduler/steps.h"

#include <algorithm>
#include <set>

namespace tsc::scheduler {

void prune_weak_dependencies(State &state) {
  Schedule &schedule = state.schedule;
  std::vector<uint32_t> group_of(schedule.nodes.size(), ir::kNone);
  for (uint32_t i = 0; i < schedule.groups.size(); ++i)
    for (const NodeId member : schedule.groups[i].members)
      group_of[member] = i;
  const auto producer_group = [&](const Dependency &read) {
    const NodeId producer = state.producer[buffer_of(read)];
    return producer == ir::kNone ? ir::kNone : group_of[producer];
  };
  for (uint32_t i = 0; i < schedule.groups.size(); ++i) {
    std::set<uint32_t> implied = {i};
    for (const NodeId member : schedule.groups[i].members) {
      for (const Dependency &read : schedule.nodes[member].reads)
        if (!is_weak(read) && producer_group(read) != ir::kNone)
          implied.insert(producer_group(read));
    }
    for (const NodeId member : schedule.groups[i].members) {
      Node &node = schedule.nodes[member];
      const auto first_redundant =
          std::stable_partition(node.reads.begin(), node.reads.end(), [&](const Dependency &read) {
            return !is_weak(read) || implied.count(producer_group(read)) == 0;
          });
      node.pruned.assign(first_redundant, node.reads.end());
      node.reads.erase(first_redundant, node.reads.end());
    }
  }
}

} // namespace tsc::scheduler
