// Spreads the blocks of a launch over the machine's cores. Separate from tsc's own thread pool
// because emitted folders have it too.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace tsc_engine {

/// Threads shared by all host devices of the process; they end with the last one.
class HostThreads {
public:
  static std::shared_ptr<HostThreads> shared();
  virtual ~HostThreads() = default;

  /// Workers, the caller included.
  virtual unsigned size() const = 0;

  /// Calls body(worker, begin, end) for ranges that together cover [0, count) once, on at most
  /// `limit` workers (0: all), and returns when all are done. The caller is worker 0 and starts at
  /// once; the others are woken only when work is left after 30 us, because waking costs more than
  /// a small grid. Runs on the caller alone while another thread is in here. The first exception is
  /// rethrown, and stops the rest.
  virtual void run(int64_t count, unsigned limit,
                   const std::function<void(unsigned, int64_t, int64_t)> &body) = 0;
};

} // namespace tsc_engine
