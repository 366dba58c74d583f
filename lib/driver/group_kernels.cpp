#include "driver/group_kernels.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tsc::driver {
namespace {

using GroupsByName = std::unordered_map<std::string, std::vector<size_t>>; // ascending

/// By name of a storage: the groups whose kernels write it.
GroupsByName writers(const Compilation &compilation) {
  GroupsByName groups;
  const ir::Module &module = compilation.module;
  for (size_t g = 0; g < compilation.schedule.groups.size(); ++g) {
    const scheduler::Group &group = compilation.schedule.groups[g];
    if (group.node_class != scheduler::NodeClass::scheduler)
      continue;
    for (scheduler::NodeId member : group.members) {
      const uint32_t operation = compilation.schedule.nodes[member].operation;
      for (ir::BufferId output : module.operations[operation].outputs) {
        std::vector<size_t> &list = groups[module.buffer(module.storage_of(output)).name];
        if (list.empty() || list.back() != g)
          list.push_back(g);
      }
    }
  }
  return groups;
}

/// The groups of one launch: those of `group`'s list that write what `step` writes.
std::vector<size_t> owners(const Compilation &compilation, const program::Step &step,
                           const GroupsByName &groups, size_t group) {
  const uint32_t launch = compilation.schedule.groups[group].list;
  if (launch == ir::kNone)
    return {group};
  std::vector<size_t> found;
  for (uint32_t buffer : program::writes(compilation.program, step)) {
    auto list = groups.find(compilation.program.buffers[buffer].name);
    if (list == groups.end())
      continue;
    for (size_t other : list->second)
      if (compilation.schedule.groups[other].list == launch)
        found.push_back(other);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// The first group of `group`'s list.
size_t first_of_list(const Compilation &compilation, size_t group) {
  const auto &all = compilation.schedule.groups;
  while (group > 0 && all[group].list != ir::kNone && all[group - 1].list == all[group].list)
    --group;
  return group;
}

/// The first group from `first` on that writes what `step` writes.
std::optional<size_t> owner(const program::Program &program, const program::Step &step,
                            const GroupsByName &groups, size_t first) {
  std::optional<size_t> found;
  for (uint32_t buffer : program::writes(program, step)) {
    auto list = groups.find(program.buffers[buffer].name);
    if (list == groups.end())
      continue;
    for (size_t group : list->second) {
      if (group < first)
        continue;
      if (!found || group < *found)
        found = group;
      break;
    }
  }
  return found;
}

} // namespace

std::vector<std::vector<uint32_t>> kernels_of_groups(const Compilation &compilation) {
  const program::Program &program = compilation.program;
  const GroupsByName groups = writers(compilation);
  std::vector<std::vector<uint32_t>> kernels(compilation.schedule.groups.size());
  // Launches come in the order of their groups. One that writes nothing a group writes (the first
  // half of a split reduction) belongs to the group of the launch behind it.
  std::vector<uint32_t> pending;
  size_t next = 0;
  for (const program::Step &step : program.steps) {
    const auto *launch = std::get_if<program::Launch>(&step.kind);
    if (!launch)
      continue;
    pending.push_back(launch->kernel);
    std::optional<size_t> group = owner(program, step, groups, next);
    if (!group && next > 0)
      group = owner(program, step, groups, next - 1);
    if (!group)
      continue;
    // A list may be several launches, in an order of their own.
    const size_t begin = first_of_list(compilation, *group);
    next = compilation.schedule.groups[*group].list == ir::kNone ? *group + 1 : begin;
    for (size_t member : owners(compilation, step, groups, *group))
      kernels[member].insert(kernels[member].end(), pending.begin(), pending.end());
    pending.clear();
  }
  return kernels;
}

} // namespace tsc::driver
