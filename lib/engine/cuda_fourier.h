// Fourier transforms on the GPU by cuFFT, which is loaded when a program first needs it.
#pragma once

#include "engine/solver.h"

#include <memory>

namespace tsc_engine {

/// A transform of one shape, on the GPU that is current.
class CudaFourier {
public:
  /// Errors: Error (device) where the library cannot be loaded, or refuses the shape.
  static std::unique_ptr<CudaFourier> make(const SolverShape &shape);
  virtual ~CudaFourier() = default;
  virtual size_t scratch_bytes() const = 0;
  /// Not from two threads at once.
  virtual void run(const SolverMemory &memory, void *scratch, Stream stream) = 0;
};

} // namespace tsc_engine
