// Waits as late as dependencies allow: what can run while ranks communicate does.
#include "scheduler/list_schedule.h"
#include "scheduler/steps.h"

#include <algorithm>

namespace tsc::scheduler {

void sink_waits(State &state) {
  if (!state.has_collectives)
    return;
  std::vector<Priority> priorities;
  for (const Group &group : state.schedule.groups) {
    const bool waits = std::any_of(group.members.begin(), group.members.end(), [&](NodeId id) {
      return library_of(state, id) == ir::Library::wait;
    });
    priorities.push_back({0, waits ? uint64_t{1} : uint64_t{0}});
  }
  list_schedule(state, priorities);
}

} // namespace tsc::scheduler
