// Complex tensors as their parts and back: the same bytes.
#pragma once

#include "tensor/host_tensor.h"

namespace tsc::tensor {

/// A complex tensor as a real one with a last dimension of 2; others as they are. Shares memory
/// where `tensor` is contiguous.
HostTensor as_real(const HostTensor &tensor);
/// The other way round. Precondition: f32 or f64, a last dimension of 2.
HostTensor as_complex(const HostTensor &tensor);

} // namespace tsc::tensor
