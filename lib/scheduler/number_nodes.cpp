#include "scheduler/dependency.h"
#include "scheduler/steps.h"

#include <algorithm>

namespace tsc::scheduler {

void number_nodes(State &state) {
  Schedule &schedule = state.schedule;
  for (size_t position = 0; position < state.order.size(); ++position) {
    Node &node = schedule.nodes[state.order[position]];
    node.min_order = node.max_order = position;
    std::vector<NodeId> &predecessors = node.ancestors_hint;
    predecessors.clear();
    for (const Dependency &read : node.reads) {
      const NodeId producer = state.producer[buffer_of(read)];
      if (producer != ir::kNone && producer != state.order[position])
        predecessors.push_back(producer);
    }
    std::sort(predecessors.begin(), predecessors.end());
    predecessors.erase(std::unique(predecessors.begin(), predecessors.end()), predecessors.end());
  }
  schedule.groups.clear();
  for (const NodeId id : state.order)
    schedule.groups.push_back(group_of_one(schedule, id));
}

Group group_of_one(const Schedule &schedule, NodeId id) {
  const Node &node = schedule.nodes[id];
  Group group;
  group.members = {id};
  group.node_class = node.node_class;
  group.numel = node.numel;
  group.reduction_numel = node.reduction_numel;
  if (node.node_class == NodeClass::scheduler) {
    const auto iteration = node.body.iteration_sizes(), reduction = node.body.reduction_sizes();
    group.iteration_sizes.assign(iteration.begin(), iteration.end());
    group.reduction_sizes.assign(reduction.begin(), reduction.end());
  }
  return group;
}

} // namespace tsc::scheduler
