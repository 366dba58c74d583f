#include "scheduler/measure_fusion.h"

#include <algorithm>
#include <cstdio>

namespace tsc::scheduler {

namespace {

bool adds_atomically(const Fusion &fusion, const std::vector<NodeId> &members) {
  return std::any_of(members.begin(), members.end(), [&](NodeId member) {
    const std::vector<Dependency> &writes = fusion.node(member).writes;
    return std::any_of(writes.begin(), writes.end(), [](const Dependency &write) {
      const auto *memory = std::get_if<MemoryDep>(&write);
      return memory && memory->mode != ir::StoreMode::plain;
    });
  });
}

/// A schedule of one group of `members`, as the steps after fusion would complete it.
Schedule schedule_of(const Fusion &fusion, const std::vector<NodeId> &members,
                     const LoopNest &nest) {
  Schedule schedule;
  Group group;
  group.iteration_sizes = nest.iteration;
  group.reduction_sizes = nest.reduction;
  group.numel = symbolic::numel(nest.iteration);
  group.reduction_numel = symbolic::numel(nest.reduction);
  std::vector<NodeId> sorted = members;
  std::sort(sorted.begin(), sorted.end());
  for (const NodeId member : members) {
    group.members.push_back(static_cast<NodeId>(schedule.nodes.size()));
    schedule.nodes.push_back(fusion.node(member));
    group.bodies.push_back(express_over(fusion.node(member).body, nest));
    for (const BufferId output : fusion.state.operation(member).outputs)
      if (fusion.stays_inside(output, sorted))
        group.internal_buffers.push_back(output);
  }
  std::sort(group.internal_buffers.begin(), group.internal_buffers.end());
  schedule.groups.push_back(std::move(group));
  return schedule;
}

} // namespace

std::optional<Measurement> measure_fusion(const Fusion &fusion, GroupId first, GroupId second,
                                          const LoopNest &nest) {
  const auto &timer = fusion.state.options.fusion_timer;
  if (!timer)
    return std::nullopt;
  std::vector<NodeId> members = fusion.graph.members(first);
  const std::vector<NodeId> others = fusion.graph.members(second);
  if (adds_atomically(fusion, members) || adds_atomically(fusion, others))
    return std::nullopt;
  const auto time_first = timer(schedule_of(fusion, members, fusion.group(first).nest));
  const auto time_second =
      time_first ? timer(schedule_of(fusion, others, fusion.group(second).nest)) : std::nullopt;
  if (!time_second)
    return std::nullopt;
  members.insert(members.end(), others.begin(), others.end());
  const auto together = timer(schedule_of(fusion, members, nest));
  return together ? std::optional(Measurement{*time_first, *time_second, *together}) : std::nullopt;
}

void refuse_if_slower(const Measurement &measured, Verdict &verdict) {
  char text[128];
  std::snprintf(text, sizeof text, "%.0f ns as one kernel, %.0f and %.0f ns apart",
                measured.together, measured.first, measured.second);
  verdict.text = text;
  if (measured.together >= measured.first + measured.second)
    verdict.refusal = Refusal::slower;
}

} // namespace tsc::scheduler
