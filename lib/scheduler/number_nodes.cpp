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
  for (const NodeId id : state.order) {
    const Node &node = schedule.nodes[id];
    Group group;
    group.members = {id};
    group.node_class = node.node_class;
    group.numel = node.numel;
    group.reduction_numel = node.reduction_numel;
    schedule.groups.push_back(std::move(group));
  }
}

} // namespace tsc::scheduler
