// The matrix product of any strides, sizes and element types, one thread an element of the result:
// slow, for integers and for what cuBLASLt refuses.
#pragma once

#include "engine/device.h"

#include <cuda_runtime_api.h>

namespace tsc_engine {

/// The kernel for products of `dtype`, wide_product(dtype) if `wide`, compiled by NVRTC for this
/// GPU. Errors: Error (bad_argument) for booleans; Error (device).
class CudaPlainMatmul {
public:
  CudaPlainMatmul(DType dtype, bool wide, int device_index);
  ~CudaPlainMatmul();
  CudaPlainMatmul(const CudaPlainMatmul &) = delete;
  CudaPlainMatmul &operator=(const CudaPlainMatmul &) = delete;
  void run(const MatmulShape &shape, const void *a, const void *b, const void *c, void *out,
           cudaStream_t stream) const;

private:
  cudaLibrary_t library_ = nullptr;
  cudaKernel_t kernel_ = nullptr;
};

/// The text that is compiled; for tests.
std::string plain_matmul_text(DType dtype, bool wide = false);

} // namespace tsc_engine
