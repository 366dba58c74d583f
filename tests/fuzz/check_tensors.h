// What must hold for every tensor that a reader gave.
#pragma once

#include "support/diagnostic.h"
#include "tensor/host_tensor.h"

namespace tsc::fuzz {

/// Every element that is promised can be read.
inline void check_tensor(const tensor::HostTensor &tensor) {
  tensor.clone();
  if (tensor::is_complex(tensor.dtype()) || tensor.numel() == 0)
    return;
  tensor.get_double(0);
  tensor.get_double(tensor.numel() - 1);
}

} // namespace tsc::fuzz
