// How far a CUDA graph with collectives is, seen from the host while it runs.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace tsc_engine {

/// How far a CUDA graph is: the beginning of each collective is a byte of host memory, which a copy
/// writes beside the collective, on a stream of its own. Nothing but the graph's end waits for it.
class Marks {
public:
  /// Collectives of one graph whose beginnings are told apart; later ones count as the last.
  static constexpr size_t kMost = 4096;

  /// On the current device. Errors: Error (device).
  Marks();
  ~Marks() { release(); }
  Marks(const Marks &) = delete;
  Marks &operator=(const Marks &) = delete;

  /// Queues that what `stream` gets next begins, collective `number` of a graph.
  void set(size_t number, cudaStream_t stream);
  /// `stream` has waited for all that were set. Precondition: one was.
  void join(cudaStream_t stream);
  /// Queues that none has begun.
  void clear(size_t count, cudaStream_t stream);
  bool is_set(size_t number) const { return number < kMost && bytes_[number] != 0; }

private:
  void release();
  volatile unsigned char *bytes_ = nullptr;
  unsigned char *values_ = nullptr; // of the device: kMost zeros, and a 1
  cudaStream_t stream_ = nullptr;
  cudaEvent_t fork_ = nullptr;
};

} // namespace tsc_engine
