#include "scheduler/fusion.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

WorkGroup make_group(const State &state, DependencyTable &table, NodeId id) {
  const Node &node = state.schedule.nodes[id];
  WorkGroup group;
  group.node_class = node.node_class;
  group.device = state.operation(id).device;
  group.numel = node.numel;
  group.reduction_numel = node.reduction_numel;
  group.min_order = node.min_order;
  group.max_order = node.max_order;
  if (node.node_class == NodeClass::scheduler) {
    group.reduces = node.body.is_reduction();
    const auto iteration = node.body.iteration_sizes(), reduction = node.body.reduction_sizes();
    group.nest.iteration.assign(iteration.begin(), iteration.end());
    group.nest.reduction.assign(reduction.begin(), reduction.end());
  }
  for (const std::vector<Dependency> *list : {&node.reads, &node.writes}) {
    for (const Dependency &dependency : *list) {
      group.dependencies.push_back(table.number_of(dependency));
      group.buffers.push_back(buffer_of(dependency));
    }
  }
  std::sort(group.dependencies.begin(), group.dependencies.end());
  group.dependencies.erase(std::unique(group.dependencies.begin(), group.dependencies.end()),
                           group.dependencies.end());
  std::sort(group.buffers.begin(), group.buffers.end());
  group.buffers.erase(std::unique(group.buffers.begin(), group.buffers.end()), group.buffers.end());
  return group;
}

} // namespace

Fusion::Fusion(State &s) : state(s), table(s.module), graph(s) {
  for (NodeId id = 0; id < s.schedule.nodes.size(); ++id)
    groups.push_back(make_group(s, table, id));
  for (const std::vector<NodeId> &block : s.blocks) { // a block joins no other group
    WorkGroup &whole = groups[block[0]];
    whole.node_class = NodeClass::external;
    for (const NodeId member : block) {
      whole.min_order = std::min(whole.min_order, groups[member].min_order);
      whole.max_order = std::max(whole.max_order, groups[member].max_order);
      groups[member].alive = member == block[0];
    }
  }
}

int64_t Fusion::shared_bytes(GroupId a, GroupId b) const {
  const std::vector<uint32_t> &in_a = groups[a].dependencies, &in_b = groups[b].dependencies;
  int64_t bytes = 0;
  for (size_t i = 0, j = 0; i < in_a.size() && j < in_b.size();) {
    if (in_a[i] < in_b[j]) {
      ++i;
    } else if (in_b[j] < in_a[i]) {
      ++j;
    } else {
      bytes += table.bytes(in_a[i]);
      ++i;
      ++j;
    }
  }
  return bytes;
}

size_t Fusion::distance(GroupId a, GroupId b) const {
  const auto difference = [](size_t x, size_t y) { return x < y ? y - x : x - y; };
  return std::max(difference(groups[a].min_order, groups[b].max_order),
                  difference(groups[b].min_order, groups[a].max_order));
}

} // namespace tsc::scheduler
