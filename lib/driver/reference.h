// Runs a compilation's operations on the oracle.
#pragma once

#include "driver/compile.h"
#include "tensor/host_tensor.h"

namespace tsc::driver {

/// Outputs parallel to compilation.program.outputs, as a Session gives them. Needs Form::program.
std::vector<tensor::HostTensor> run_reference(const Compilation &compilation,
                                              const std::vector<tensor::HostTensor> &inputs,
                                              const tensor::TensorMap &weights,
                                              bool round_buffers = true);

} // namespace tsc::driver
