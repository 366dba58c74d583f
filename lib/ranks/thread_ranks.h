// Ranks that run side by side in this process, a thread each, and exchange host memory.
#pragma once

#include "engine/communicator.h"
#include "ranks/group_table.h"

#include <functional>

namespace tsc::ranks {

/// Calls body(rank, groups) for every rank of the table's world, each on a thread of its own, and
/// waits for all. A rank that throws releases the others, whose next collective then throws; the
/// first exception of the lowest rank that failed by itself is rethrown. Errors: UserError (device)
/// TSC-R018 if not all can be started, TSC-R052 if pieces do not fit the room for them.
void run_ranks_as_threads(const GroupTable &table,
                          const std::function<void(int64_t rank, tsc_engine::Groups &)> &body);

} // namespace tsc::ranks
