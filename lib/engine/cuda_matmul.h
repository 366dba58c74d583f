// Matrix products on a GPU: cuBLASLt, and a plain kernel for what it does not do.
#pragma once

#include "engine/device.h"

#include <memory>

namespace tsc_engine {

/// That a product takes while it runs: what NVIDIA advises for Hopper.
inline constexpr size_t kMostScratchBytes = 32 << 20;

/// The products of one device. Calls may come from several threads.
class CudaMatmuls {
public:
  /// Nothing is loaded until the first prepare. The device must be current in every call.
  static std::unique_ptr<CudaMatmuls> make(int device_index);
  virtual ~CudaMatmuls() = default;
  virtual size_t prepare(const MatmulShape &shape) = 0;
  virtual size_t scratch_bytes(size_t plan) = 0;
  virtual void run(size_t plan, const void *a, const void *b, const void *c, void *out,
                   void *scratch, Stream stream) = 0;
};

} // namespace tsc_engine
