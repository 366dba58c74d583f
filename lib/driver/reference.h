// Runs a compilation's operations on the oracle.
#pragma once

#include "driver/compile.h"
#include "tensor/host_tensor.h"

#include <cstddef>
#include <functional>

namespace tsc::driver {

struct ReferenceOptions {
  bool round_buffers = true;   // false: intermediates stay in double
  uint64_t seed = 0, call = 0; // of random numbers, as Session::set_seed and the run's number
  /// Is told before and after each operation, by its number in the module.
  std::function<void(size_t operation, bool begins)> mark;
};
/// Outputs parallel to compilation.program.outputs, as a Session gives them. Needs Form::program.
std::vector<tensor::HostTensor> run_reference(const Compilation &compilation,
                                              const std::vector<tensor::HostTensor> &inputs,
                                              const tensor::TensorMap &weights,
                                              const ReferenceOptions &options = {});

} // namespace tsc::driver
