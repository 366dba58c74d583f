// What a tensor holds, in a few numbers.
#pragma once

#include "tensor/host_tensor.h"

namespace tsc::tensor {

struct Summary {
  double low = 0, high = 0, mean = 0; // of the elements that are no NaN; 0 if there are none
  int64_t count = 0, nan = 0;         // elements that are no NaN, and the others
};
/// Of a tensor of real numbers, by all threads of the pool; the same bits whatever their number.
Summary summarize(const HostTensor &tensor);

} // namespace tsc::tensor
