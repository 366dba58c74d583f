#include "scheduler/dependency.h"
#include "scheduler/steps.h"

#include "scheduler/topological_order.h"

#include <numeric>

namespace tsc::scheduler {

std::vector<NodeId> producers_by_name(const State &state, std::span<const NodeId> nodes) {
  std::vector<BufferId> buffers;
  for (const NodeId id : nodes) {
    for (const Dependency &read : state.schedule.nodes[id].reads)
      if (state.producer[buffer_of(read)] != ir::kNone)
        buffers.push_back(buffer_of(read));
    if (!state.awaited.empty())
      buffers.insert(buffers.end(), state.awaited[id].begin(), state.awaited[id].end());
  }
  const auto by_name = [&](BufferId a, BufferId b) {
    return state.module.buffer(a).name < state.module.buffer(b).name;
  };
  std::sort(buffers.begin(), buffers.end(), by_name);
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
  std::vector<NodeId> producers;
  producers.reserve(buffers.size());
  for (const BufferId buffer : buffers)
    producers.push_back(state.producer[buffer]);
  return producers;
}

void sort_nodes(State &state) {
  std::vector<uint32_t> nodes(state.schedule.nodes.size());
  std::iota(nodes.begin(), nodes.end(), 0u);
  state.order = topological_order(nodes, nodes.size(), [&](uint32_t id) {
    const NodeId self[] = {id};
    return producers_by_name(state, self);
  });
}

} // namespace tsc::scheduler
