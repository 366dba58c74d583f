// Faults on purpose, for tests of what the other ranks make of them.
#pragma once

#include <cstdint>

namespace tsc::ranks {

enum class FaultPoint : uint8_t { before, within, after };

/// TSC_FAULT="rank=1,collective=2,at=within,do=kill" in the environment: does it when rank 1 comes
/// there; `do` is kill (as by SIGKILL), exit, stop (sleeps for good) or a number of milliseconds to
/// sleep. Collectives count from 1. Nothing without the variable.
void meet_fault(int64_t rank, uint64_t collective, FaultPoint point);

} // namespace tsc::ranks
