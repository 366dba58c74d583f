// A batch of matrices in one call of cuSOLVER or cuBLAS, where they have one for it.
#pragma once

#include "engine/cuda_solver_library.h"

#include <memory>

namespace tsc_engine {

class BatchPlan {
public:
  virtual ~BatchPlan() = default;
  /// Null where matrices are given to the libraries one after another: there is one, they have no
  /// call for several, or it is for smaller ones.
  static std::unique_ptr<BatchPlan> make(const SolverShape &shape, const Handles &handles);

  virtual size_t scratch_bytes() const = 0;
  virtual void run(const SolverMemory &memory, char *scratch, cudaStream_t stream) const = 0;
};

} // namespace tsc_engine
