// Linear algebra on the host: LAPACK, one matrix after another.
#pragma once

#include "engine/solver.h"

namespace tsc_engine {

/// Runs the routine for every matrix of the batch; `memory` as solver.h says, outputs apart from
/// inputs. Errors: Error (device) where no library has LAPACK's routines.
void host_solver(const SolverShape &shape, const SolverMemory &memory);

} // namespace tsc_engine
