// Collectives as early as dependencies allow, and before anything that none of them needs.
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

} // namespace

void raise_collectives(State &state) {
  if (!state.has_collectives)
    return;
  std::vector<Priority> priorities(state.schedule.groups.size(), Priority{UINT64_MAX, 0});
  AncestorMarks marks(state, priorities);
  uint64_t collective = 0;
  for (const Group &group : state.schedule.groups) {
    const bool communicates =
        std::any_of(group.members.begin(), group.members.end(), [&](NodeId id) {
          const std::optional<ir::Library> library = library_of(state, id);
          return library && ir::is_collective(*library);
        });
    if (communicates)
      marks.mark(group.members, collective++);
  }
  list_schedule(state, priorities);
}

} // namespace tsc::scheduler
