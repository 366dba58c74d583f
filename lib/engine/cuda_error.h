// Results of CUDA runtime calls as errors.
#pragma once

#include "engine/device.h"

#include <cuda_runtime_api.h>

namespace tsc_engine {

inline void check_cuda(cudaError_t result, const char *what) {
  if (result == cudaSuccess)
    return;
  cudaGetLastError(); // the next call shall not report it again
  throw Error(result == cudaErrorMemoryAllocation ? Status::out_of_memory : Status::device,
              std::string(what) + ": " + cudaGetErrorString(result) + " (" +
                  cudaGetErrorName(result) + ")");
}

} // namespace tsc_engine
