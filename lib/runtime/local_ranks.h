// Ranks that run side by side in this process, a thread each, and exchange host memory.
#pragma once

#include "engine/communicator.h"

#include <functional>
#include <memory>
#include <vector>

namespace tsc::runtime {

/// Calls body(rank, communicator) for every rank, each on a thread of its own, and waits for all. A
/// rank that throws releases the others, whose next collective then throws; the first exception of
/// the lowest rank that failed by itself is rethrown.
void run_local_ranks(int64_t ranks,
                     const std::function<void(int64_t rank, tsc_engine::Communicator &)> &body);

} // namespace tsc::runtime
