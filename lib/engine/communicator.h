// What ranks do together. A rank is one run of the program with inputs of its own; a Communicator
// is its connection to the others. Whoever runs several ranks implements it (on the host: one
// process, a thread a rank).
#pragma once

#include "engine/device.h"

#include <cstdint>

namespace tsc_engine {

enum class Reduction : int32_t { sum, average, maximum };

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t ranks() const = 0;

  /// `to` gets the `bytes` of every rank's `from`, one after the other in the order of ranks.
  /// Device memory; no overlap.
  virtual void all_gather(const void *from, void *to, size_t bytes, Stream stream) = 0;
  /// `from` holds `count` elements for each rank; `to` gets those for this rank, reduced over all
  /// ranks: accumulated in f32 (f64, int64 for those) in the order of ranks, then rounded.
  virtual void reduce_scatter(const void *from, void *to, int64_t count, DType dtype,
                              Reduction reduction, Stream stream) = 0;
};

} // namespace tsc_engine
