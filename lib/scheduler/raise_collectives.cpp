// Collectives as early as dependencies allow, and before anything that none of them needs; where
// memory counts, as early as pays (collective_memory.h).
#include "scheduler/collective_memory.h"
#include "scheduler/dependency.h"
#include "scheduler/list_schedule.h"
#include "scheduler/steps.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

/// Marks the group of every node that `node` depends on, where no earlier collective has.
class AncestorMarks {
public:
  AncestorMarks(const State &state, std::vector<Priority> &priorities)
      : state_(state), priorities_(priorities), seen_(state.schedule.nodes.size(), false),
        group_of_(state.schedule.nodes.size(), 0) {
    for (uint32_t i = 0; i < state.schedule.groups.size(); ++i)
      for (const NodeId member : state.schedule.groups[i].members)
        group_of_[member] = i;
  }

  void mark(const std::vector<NodeId> &nodes, uint64_t collective) {
    std::vector<NodeId> open;
    const auto visit = [&](NodeId node) {
      if (!seen_[node]) {
        seen_[node] = true;
        open.push_back(node);
        uint64_t &first = priorities_[group_of_[node]].first;
        first = std::min(first, collective);
      }
    };
    std::for_each(nodes.begin(), nodes.end(), visit);
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      for (const Dependency &read : state_.schedule.nodes[node].reads) {
        const NodeId producer = state_.producer[buffer_of(read)];
        if (producer != ir::kNone)
          visit(producer);
      }
    }
  }

private:
  const State &state_;
  std::vector<Priority> &priorities_;
  std::vector<bool> seen_;
  std::vector<uint32_t> group_of_;
};

struct Priorities {
  std::vector<uint32_t> collectives; // groups
  std::vector<Priority> of_groups;   // the number of the first collective that needs each
};

Priorities find_priorities(const State &state) {
  const std::vector<Group> &groups = state.schedule.groups;
  Priorities found{{}, std::vector<Priority>(groups.size(), Priority{kNoCollective, 0})};
  AncestorMarks marks(state, found.of_groups);
  for (uint32_t i = 0; i < groups.size(); ++i)
    if (communicates(state, groups[i])) {
      marks.mark(groups[i].members, found.collectives.size());
      found.collectives.push_back(i);
    }
  return found;
}

} // namespace

void raise_collectives(State &state) {
  if (!state.has_collectives)
    return;
  list_schedule(state, find_priorities(state).of_groups);
  if (!state.policy().reorder_for_peak_memory)
    return;
  Priorities again = find_priorities(state);
  if (use_results_early(state, again.collectives, again.of_groups))
    list_schedule(state, again.of_groups);
  sink_free_kernels(state);
  begin_gathers_in_time(state);
}

} // namespace tsc::scheduler
