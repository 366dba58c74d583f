#include "driver/group_kernels.h"

#include "ir/custom_call.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tsc::driver {
namespace {

using GroupsByName = std::unordered_map<std::string, std::vector<size_t>>; // ascending

bool is_user_kernel(const ir::Module &module, uint32_t operation) {
  const auto *call = std::get_if<ir::Extern>(&module.operations[operation].kind);
  return call != nullptr && call->library == ir::Library::user_kernel;
}

/// What is launched for `operation` writes these. Items of a tuple follow what yields it.
std::vector<ir::BufferId> written_by(const ir::Module &module, uint32_t operation) {
  if (!is_user_kernel(module, operation))
    return module.operations[operation].outputs;
  const auto &call = std::get<ir::Extern>(module.operations[operation].kind);
  std::vector<ir::BufferId> items;
  for (size_t i = 0; i < call.custom->results; ++i)
    items.push_back(module.operations[operation + 1 + i].outputs[0]);
  return items;
}

/// By name of a storage in the program: the groups whose kernels write it.
GroupsByName writers(const ir::Module &module, const scheduler::Schedule &schedule,
                     const std::string &prefix) {
  GroupsByName groups;
  for (size_t g = 0; g < schedule.groups.size(); ++g) {
    const scheduler::Group &group = schedule.groups[g];
    if (group.node_class != scheduler::NodeClass::scheduler &&
        group.node_class != scheduler::NodeClass::templated &&
        group.node_class != scheduler::NodeClass::external)
      continue;
    for (scheduler::NodeId member : group.members) {
      const uint32_t operation = schedule.nodes[member].operation;
      if (group.node_class == scheduler::NodeClass::external && !is_user_kernel(module, operation))
        continue;
      for (ir::BufferId output : written_by(module, operation)) {
        std::vector<size_t> &list = groups[prefix + module.buffer(module.storage_of(output)).name];
        if (list.empty() || list.back() != g)
          list.push_back(g);
      }
    }
  }
  return groups;
}

/// The groups of one launch: those of `group`'s list that write what `step` writes.
std::vector<size_t> owners(const program::Program &program, const scheduler::Schedule &schedule,
                           const program::Step &step, const GroupsByName &groups, size_t group) {
  const uint32_t launch = schedule.groups[group].list;
  if (launch == ir::kNone)
    return {group};
  std::vector<size_t> found;
  for (uint32_t buffer : program::writes(program, step)) {
    auto list = groups.find(program.buffers[buffer].name);
    if (list == groups.end())
      continue;
    for (size_t other : list->second)
      if (schedule.groups[other].list == launch)
        found.push_back(other);
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

/// The first group of `group`'s list.
size_t first_of_list(const scheduler::Schedule &schedule, size_t group) {
  const auto &all = schedule.groups;
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

/// Calls that have subgraphs, in the order of their steps.
std::vector<const ir::Extern *> calls_with_subgraphs(const ir::Module &module,
                                                     const scheduler::Schedule &schedule) {
  std::vector<const ir::Extern *> calls;
  for (const scheduler::Group &group : schedule.groups)
    for (scheduler::NodeId member : group.members) {
      const auto *call =
          std::get_if<ir::Extern>(&module.operations[schedule.nodes[member].operation].kind);
      if (call && ir::has_subgraphs(call->library))
        calls.push_back(call);
    }
  return calls;
}

class Finder {
public:
  explicit Finder(const program::Program &program) : program_(program) {}

  GroupKernels run(const Compilation &compilation) {
    visit(compilation.module, compilation.schedule, "", 0, program_.steps.size());
    return std::move(kernels_);
  }

private:
  const program::Program &program_;
  GroupKernels kernels_;

  void visit(const ir::Module &module, const scheduler::Schedule &schedule,
             const std::string &prefix, size_t begin, size_t end) {
    const GroupsByName groups = writers(module, schedule, prefix);
    const std::vector<const ir::Extern *> calls = calls_with_subgraphs(module, schedule);
    std::vector<std::vector<uint32_t>> kernels(schedule.groups.size());
    // Launches come in the order of their groups. One that writes nothing a group writes (the
    // first half of a split reduction) belongs to the group of the launch behind it.
    std::vector<uint32_t> pending;
    size_t next = 0, call = 0;
    for (size_t i = begin; i < end; ++i) {
      const program::Step &step = program_.steps[i];
      if (std::holds_alternative<program::Define>(step.kind))
        continue;
      if (program::decides(step)) {
        i = visit_subgraphs(module, schedule, *calls.at(call++), prefix, i);
        continue;
      }
      const auto *launch = std::get_if<program::Launch>(&step.kind);
      if (!launch)
        continue;
      pending.push_back(launch->kernel);
      std::optional<size_t> group = owner(program_, step, groups, next);
      if (!group && next > 0)
        group = owner(program_, step, groups, next - 1);
      if (!group)
        continue;
      // A list may be several launches, in an order of their own.
      next =
          schedule.groups[*group].list == ir::kNone ? *group + 1 : first_of_list(schedule, *group);
      for (size_t member : owners(program_, schedule, step, groups, *group))
        kernels[member].insert(kernels[member].end(), pending.begin(), pending.end());
      pending.clear();
    }
    kernels_.emplace(&schedule, std::move(kernels));
  }

  /// Returns the last step that depends on step `at`.
  size_t visit_subgraphs(const ir::Module &module, const scheduler::Schedule &schedule,
                         const ir::Extern &call, const std::string &prefix, size_t at) {
    const program::Step &step = program_.steps[at];
    const auto *conditional = std::get_if<program::Conditional>(&step.kind);
    const auto *loop = std::get_if<program::WhileLoop>(&step.kind);
    size_t counts[] = {0, 0};
    if (conditional) {
      counts[0] = conditional->then_steps;
      counts[1] = conditional->else_steps;
    } else if (loop) {
      counts[0] = loop->condition_steps;
      counts[1] = loop->body_steps;
    }
    size_t begin = at + 1;
    for (size_t i = 0; i < 2; ++i) {
      const ir::Module &subgraph = module.subgraphs[call.subgraphs[i]];
      visit(subgraph, schedule.subgraphs[call.subgraphs[i]], prefix + subgraph.name + "/", begin,
            begin + counts[i]);
      begin += counts[i];
    }
    return begin - 1;
  }
};

} // namespace

GroupKernels kernels_of_all_groups(const Compilation &compilation) {
  return Finder(compilation.program).run(compilation);
}

std::vector<std::vector<uint32_t>> kernels_of_groups(const Compilation &compilation) {
  return kernels_of_all_groups(compilation).at(&compilation.schedule);
}

} // namespace tsc::driver
