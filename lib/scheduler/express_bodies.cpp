#include "scheduler/loop_nest.h"
#include "scheduler/steps.h"

namespace tsc::scheduler {

void express_bodies(State &state) {
  Schedule &schedule = state.schedule;
  for (Group &group : schedule.groups) {
    if (group.node_class != NodeClass::scheduler)
      continue;
    const LoopNest nest{group.iteration_sizes, group.reduction_sizes, false};
    for (const NodeId member : group.members)
      group.bodies.push_back(express_over(schedule.nodes[member].body, nest));
  }
}

} // namespace tsc::scheduler
