// Orders groups by a priority of their own, as far as dependencies allow.
#pragma once

#include "scheduler/state.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tsc::scheduler {

/// Lower runs earlier; ties keep the present order.
struct Priority {
  uint64_t first = 0, second = 0;
};

/// Reorders state.schedule.groups: again and again, of the groups all of whose producers have run,
/// the one with the lowest priority runs next. `priorities`: one a group. Precondition: the present
/// order is topological.
void list_schedule(State &state, const std::vector<Priority> &priorities);

/// For each group, the groups that wait for it, each once; and how many each waits for.
struct WaitingGroups {
  std::vector<std::vector<uint32_t>> after;
  std::vector<uint32_t> count;
};
WaitingGroups find_waiting(const State &state);

/// The library that a node's operation calls; nothing for loops.
std::optional<ir::Library> library_of(const State &state, NodeId node);
/// True if ranks communicate in one of the module's operations.
bool has_collectives(const State &state);

} // namespace tsc::scheduler
