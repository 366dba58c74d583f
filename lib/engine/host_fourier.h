// Fourier transforms on the host.
#pragma once

#include "engine/host_threads.h"
#include "engine/solver.h"

namespace tsc_engine {

/// Runs the transform for every signal of the batch, on `threads` where there are any; `memory` as
/// solver.h says, output apart from input. At most `limit` of the threads, 0: all. Errors: Error
/// (bad argument) for elements that are neither f32 nor f64.
void host_fourier(const SolverShape &shape, const SolverMemory &memory, HostThreads *threads,
                  unsigned limit);

} // namespace tsc_engine
