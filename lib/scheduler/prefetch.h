// When all-gathers of sharded weights begin.
#pragma once

#include "scheduler/state.h"

#include <vector>

namespace tsc::scheduler {

/// An all-gather that begins when a wait is over.
struct Prefetch {
  NodeId gather = 0, after = 0;
};

/// Moves all-gathers that need nothing of other collectives before those that the policy's number
/// of gathers ahead of them is for (`prefetch_gathers`, `prefetch_bytes`). `collectives`: nodes, or
/// first nodes of blocks, in the order in which they are to run; gathers in blocks stay where they
/// are.
std::vector<Prefetch> plan_prefetch(const State &state, std::vector<NodeId> &collectives);

} // namespace tsc::scheduler
