// Tensors from a formula.
#pragma once

#include "tensor/host_tensor.h"

#include <functional>

/// A tensor whose element i, in row-major order, is f(i).
inline tsc::tensor::HostTensor numbers(tsc::tensor::DType dtype, std::vector<int64_t> sizes,
                                       const std::function<double(int64_t)> &f) {
  tsc::tensor::HostTensor result(dtype, std::move(sizes));
  for (int64_t i = 0; i < result.numel(); ++i)
    result.set_double(i, f(i));
  return result;
}
