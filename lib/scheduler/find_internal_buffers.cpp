#include "scheduler/steps.h"
#include "scheduler/storages.h"

#include <algorithm>

namespace tsc::scheduler {

void find_internal_buffers(State &state) {
  const std::vector<bool> is_aliased = find_aliased(state.module);
  std::vector<bool> is_member(state.schedule.nodes.size(), false);
  for (Group &group : state.schedule.groups) {
    if (group.node_class != NodeClass::scheduler && group.node_class != NodeClass::templated)
      continue;
    for (const NodeId member : group.members)
      is_member[member] = true;
    for (const NodeId member : group.members) {
      for (const BufferId output : state.operation(member).outputs)
        if (stays_inside(state, is_aliased, output, [&](NodeId id) { return is_member[id]; }))
          group.internal_buffers.push_back(output);
    }
    for (const NodeId member : group.members)
      is_member[member] = false;
    std::sort(group.internal_buffers.begin(), group.internal_buffers.end());
    const auto internal = [&](BufferId buffer) {
      return std::binary_search(group.internal_buffers.begin(), group.internal_buffers.end(),
                                buffer);
    };
    group.last_uses.erase(std::remove_if(group.last_uses.begin(), group.last_uses.end(), internal),
                          group.last_uses.end());
  }
}

} // namespace tsc::scheduler
