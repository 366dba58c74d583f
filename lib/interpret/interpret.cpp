#include "interpret/interpret.h"

#include "interpret/machine.h"

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
  Machine machine(module, bind_sizes(module, inputs), round_buffers);
  for (size_t i = 0; i < inputs.size(); ++i)
    machine.set_input(module.inputs[i], inputs[i]);
  for (const ir::Operation &operation : module.operations)
    machine.execute(operation);
  Result result;
  for (const ir::Output &output : module.outputs)
    result.outputs.push_back(read_output(machine, output));
  return result;
}

} // namespace tsc::interpret
