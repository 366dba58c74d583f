// The one thread pool of the process; the child of a fork makes its own.
#pragma once

#include <cstddef>
#include <functional>

namespace tsc::support {

/// Number of threads that parallel_for uses, the caller included (the machine's cores, or
/// TSC_THREADS from the environment; 1 to 1024). Throws UserError (usage) TSC-C016 if that is no
/// such number. Where fewer threads can be had, fewer do the work.
size_t parallelism();

/// Calls body(i) once for every i in [0, count), on the caller and the pool's threads, and returns
/// when all are done. The first exception (by index) is rethrown. Runs inline if count is 1 or the
/// caller is itself inside a parallel_for.
void parallel_for(size_t count, const std::function<void(size_t)> &body);

} // namespace tsc::support
