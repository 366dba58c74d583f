#include "driver/reference.h"

#include "interpret/interpret.h"
#include "support/diagnostic.h"

namespace tsc::driver {

std::vector<tensor::HostTensor> run_reference(const Compilation &compilation,
                                              const std::vector<tensor::HostTensor> &inputs,
                                              const tensor::TensorMap &weights,
                                              bool round_buffers) {
  const ir::Module &module = compilation.module;
  std::vector<tensor::HostTensor> all;
  size_t user = 0;
  for (size_t i = 0; i < module.inputs.size(); ++i) {
    const ir::Buffer &buffer = module.buffer(module.inputs[i]);
    if (buffer.weight.empty()) {
      support::require(user < inputs.size(), "run_reference", "too few inputs");
      all.push_back(inputs[user++]);
      continue;
    }
    auto found = weights.find(buffer.weight);
    // A weight that no operation reads need not be there.
    all.push_back(found == weights.end() ? tensor::HostTensor(buffer.dtype, {0}) : found->second);
  }
  return interpret::run(module, all, round_buffers).outputs;
}

} // namespace tsc::driver
