// Linear algebra on the GPU by cuSOLVER and cuBLAS, which are loaded when a program first needs
// them; Fourier transforms are handed to cuda_fourier.h.
#pragma once

#include "engine/solver.h"

#include <memory>

namespace tsc_engine {

class CudaSolvers {
public:
  static std::unique_ptr<CudaSolvers> make();
  virtual ~CudaSolvers() = default;
  /// Errors: Error (device) where the libraries cannot be loaded, or have no such routine.
  virtual size_t prepare(const SolverShape &shape) = 0;
  virtual size_t scratch_bytes(size_t plan) = 0;
  virtual void run(size_t plan, const SolverMemory &memory, void *scratch, Stream stream) = 0;
};

} // namespace tsc_engine
