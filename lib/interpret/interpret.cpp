#include "interpret/interpret.h"

#include "interpret/communicate.h"

namespace tsc::interpret {
namespace {

tensor::HostTensor scalar(DType dtype) { return {dtype, std::vector<int64_t>{}}; }

tensor::HostTensor read_output(const Machine &machine, const ir::Output &output) {
  tensor::HostTensor result;
  if (const auto *view = std::get_if<ir::BufferView>(&output.value)) {
    result = machine.read(*view);
  } else if (const auto *size = std::get_if<Expr>(&output.value)) {
    result = scalar(DType::i64);
    result.set_int64(0, machine.value_of(*size));
  } else if (const auto *number = std::get_if<double>(&output.value)) {
    result = scalar(DType::f64);
    result.set_double(0, *number);
  } else if (const auto *truth = std::get_if<bool>(&output.value)) {
    result = scalar(DType::boolean);
    result.set_int64(0, *truth ? 1 : 0);
  }
  return result;
}

} // namespace

Result run(const ir::Module &module, const std::vector<tensor::HostTensor> &inputs,
           bool round_buffers) {
  Result result = std::move(run_ranks(module, {inputs}, {}, round_buffers)[0]);
  check(result);
  return result;
}

void check(const Result &result) {
  if (!result.failure.empty())
    throw value_error(result.failure);
}

std::vector<Result> run_ranks(const ir::Module &module,
                              const std::vector<std::vector<tensor::HostTensor>> &inputs,
                              const Links &links, bool round_buffers,
                              const UserKernelRunner &kernels, const OperationMark &mark) {
  std::deque<Machine> machines; // one a rank
  for (const std::vector<tensor::HostTensor> &own : inputs) {
    Machine &machine = machines.emplace_back(module, bind_sizes(module, own), round_buffers);
    machine.set_user_kernels(&kernels);
    for (size_t i = 0; i < own.size(); ++i)
      machine.set_input(module.inputs[i], own[i]);
  }
  for (size_t i = 0; i < module.operations.size(); ++i) {
    const ir::Operation &operation = module.operations[i];
    if (mark)
      mark(i, true);
    if (is_communication(operation))
      communicate(module, operation, machines, links);
    else
      for (Machine &machine : machines)
        machine.execute(operation);
    if (mark)
      mark(i, false);
  }
  std::vector<Result> results(inputs.size());
  for (size_t rank = 0; rank < results.size(); ++rank) {
    for (const ir::Output &output : module.outputs)
      results[rank].outputs.push_back(read_output(machines[rank], output));
    results[rank].failure = machines[rank].failure();
  }
  return results;
}

} // namespace tsc::interpret
