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
  std::vector<support::Diagnostic> problems; // shapes are the interpreter's to check
  size_t user = 0;
  for (size_t i = 0; i < module.inputs.size(); ++i) {
    const ir::Buffer &buffer = module.buffer(module.inputs[i]);
    if (buffer.weight.empty()) {
      support::require(user < inputs.size(), "run_reference", "too few inputs");
      const tensor::HostTensor &input = inputs[user++];
      if (input.dtype() != buffer.dtype)
        problems.push_back({.code = "TSC-R111",
                            .message = "input '" + buffer.name + "' is " +
                                       std::string(tensor::torch_name(input.dtype())) +
                                       ", the graph takes " +
                                       std::string(tensor::torch_name(buffer.dtype)),
                            .next_step = "convert it before it is saved"});
      all.push_back(input);
      continue;
    }
    auto found = weights.find(buffer.weight);
    // A weight that no operation reads need not be there.
    all.push_back(found == weights.end() ? tensor::HostTensor(buffer.dtype, {0}) : found->second);
  }
  if (!problems.empty())
    throw support::UserError(support::ExitCode::bad_input, std::move(problems));
  return interpret::run(module, all, round_buffers).outputs;
}

} // namespace tsc::driver
