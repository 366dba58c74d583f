#include "driver/reference.h"

#include "driver/ranks.h"
#include "driver/user_kernels.h"

#include "interpret/interpret.h"
#include "support/diagnostic.h"
#include "tensor/complex_memory.h"

namespace tsc::driver {
namespace {

bool is_random_state(const ir::Module &module, size_t input) {
  return module.input_specs[input].kind == graph::InputKind::random_state;
}
bool is_failure(const ir::Module &module, size_t input) {
  return module.input_specs[input].kind == graph::InputKind::failure;
}

/// What no caller sees: the next state of random numbers, and what assertions note.
template <class Input>
bool shows(const ir::Module &module, const ir::Output &output, const Input &is_input) {
  for (size_t i = 0; i < module.inputs.size(); ++i)
    if (is_input(module, i) && output.kind == graph::OutputKind::input_mutation &&
        output.target == module.buffer(module.inputs[i]).name)
      return true;
  return false;
}

/// One rank's inputs of the module.
std::vector<tensor::HostTensor> module_inputs(const ir::Module &module,
                                              const std::vector<tensor::HostTensor> &inputs,
                                              const tensor::TensorMap &weights,
                                              const ReferenceOptions &options) {
  std::vector<tensor::HostTensor> all;
  std::vector<support::Diagnostic> problems; // shapes are the interpreter's to check
  size_t user = 0;
  for (size_t i = 0; i < module.inputs.size(); ++i) {
    const ir::Buffer &buffer = module.buffer(module.inputs[i]);
    if (is_random_state(module, i)) {
      tensor::HostTensor state(tensor::DType::i64, {2});
      state.set_int64(0, static_cast<int64_t>(options.seed));
      state.set_int64(1, static_cast<int64_t>(options.call));
      all.push_back(std::move(state));
      continue;
    }
    if (is_failure(module, i)) {
      tensor::HostTensor none(tensor::DType::i64, std::vector<int64_t>{});
      none.set_int64(0, 0);
      all.push_back(std::move(none));
      continue;
    }
    if (buffer.weight.empty()) {
      support::require(user < inputs.size(), "run_reference", "too few inputs");
      const tensor::HostTensor input = tensor::as_real(inputs[user++]);
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
    all.push_back(found == weights.end() ? tensor::HostTensor(buffer.dtype, {0})
                                         : tensor::as_real(found->second));
  }
  if (!problems.empty())
    throw support::UserError(support::ExitCode::bad_input, std::move(problems));
  return all;
}

/// Throws the first assertion that did not hold (`number` counts them from 1), with the value out
/// of range that it may come from: `failure`, or "".
void check(const ir::Module &module, int64_t number, const std::string &failure) {
  if (number == 0)
    return;
  const graph::Assertion &assertion = module.assertions.at(static_cast<size_t>(number - 1));
  throw support::UserError(support::ExitCode::bad_input,
                           {.code = "TSC-R127",
                            .message = "the graph asserts: " + graph::to_string(assertion) +
                                       (failure.empty() ? "" : "\n  besides, " + failure),
                            .next_step = "give inputs of which it holds"});
}

} // namespace

RankTensors run_reference_ranks(const Compilation &compilation, const RankTensors &inputs,
                                const tensor::TensorMap &weights, const interpret::Links &links,
                                const ReferenceOptions &options) {
  const ir::Module &module = compilation.module;
  RankTensors all;
  for (const std::vector<tensor::HostTensor> &own : inputs)
    all.push_back(module_inputs(module, own, weights, options));
  RankTensors outputs;
  for (interpret::Result &result : interpret::run_ranks(module, all, links, options.round_buffers,
                                                        run_user_kernel, options.mark)) {
    for (size_t i = module.outputs.size(); i-- > 0;)
      if (shows(module, module.outputs[i], is_failure) ||
          shows(module, module.outputs[i], is_random_state)) {
        if (shows(module, module.outputs[i], is_failure))
          check(module, result.outputs[i].get_int64(0), result.failure);
        result.outputs.erase(result.outputs.begin() + static_cast<std::ptrdiff_t>(i));
      }
    interpret::check(result);
    for (size_t i = 0; i < compilation.program.outputs.size(); ++i)
      if (compilation.program.outputs[i].is_complex)
        result.outputs[i] = tensor::as_complex(result.outputs[i]);
    outputs.push_back(std::move(result.outputs));
  }
  return outputs;
}

std::vector<tensor::HostTensor> run_reference(const Compilation &compilation,
                                              const std::vector<tensor::HostTensor> &inputs,
                                              const tensor::TensorMap &weights,
                                              const ReferenceOptions &options) {
  return std::move(run_reference_ranks(compilation, {inputs}, weights, {}, options)[0]);
}

} // namespace tsc::driver
