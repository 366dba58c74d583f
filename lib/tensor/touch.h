// The memory of large tensors, before it is written.
#pragma once

#include "tensor/host_tensor.h"

namespace tsc::tensor {

/// Has the system give a large contiguous tensor its memory now, by all threads, where a copy into
/// it would wait for one page after the other. What the tensor held is lost.
void touch(const HostTensor &tensor);

} // namespace tsc::tensor
