// Branches and loops: subgraphs run on machines of their own.
#include "interpret/communicate.h"
#include "interpret/machine.h"

#include <algorithm>

namespace tsc::interpret {

using tensor::HostTensor;

std::vector<HostTensor> Machine::run_subgraph(uint32_t number,
                                              const std::vector<HostTensor> &inputs) const {
  const ir::Module &subgraph = module_.subgraphs[number];
  Machine machine(subgraph, bindings_, round_, failure_);
  machine.set_user_kernels(user_kernels_);
  for (size_t i = 0; i < inputs.size(); ++i)
    machine.set_input(subgraph.inputs[i], inputs[i]);
  for (const ir::Operation &operation : subgraph.operations)
    if (!is_communication(operation)) // items of tuples: stored with the tuple
      machine.execute(operation);
  std::vector<HostTensor> results;
  for (const ir::Output &output : subgraph.outputs)
    results.push_back(machine.read(std::get<ir::BufferView>(output.value)));
  return results;
}

void Machine::store_items(const ir::Operation &operation, const std::vector<HostTensor> &values) {
  auto next = static_cast<size_t>(&operation - module_.operations.data()) + 1;
  for (const HostTensor &value : values) { // the items follow their tuple
    const ir::BufferId id = module_.operations[next++].outputs[0];
    allocate(id);
    Storage &storage = memory(id);
    const std::vector<int64_t> positions = positions_of(module_.buffer(id).layout);
    const HostTensor contiguous = value.contiguous();
    for (size_t i = 0; i < positions.size(); ++i)
      if (storage.is_float()) // rounded: what computes in double gives more digits than it has
        store(storage, positions[i], contiguous.get_double(static_cast<int64_t>(i)));
      else
        read_element(storage, positions[i], contiguous, static_cast<int64_t>(i));
  }
}

void Machine::conditional(const ir::Operation &operation, const ir::Extern &call) {
  const size_t first = call.condition ? 0 : 1;
  const bool holds =
      call.condition ? value_of(*call.condition) != 0 : read(call.inputs[0]).get_int64(0) != 0;
  std::vector<HostTensor> operands;
  for (size_t i = first; i < call.inputs.size(); ++i)
    operands.push_back(read(call.inputs[i]));
  store_items(operation, run_subgraph(call.subgraphs[holds ? 0 : 1], operands));
}

void Machine::while_loop(const ir::Operation &operation, const ir::Extern &call) {
  std::vector<HostTensor> values;
  for (const ir::BufferView &input : call.inputs)
    values.push_back(read(input));
  while (run_subgraph(call.subgraphs[0], values)[0].get_int64(0) != 0) {
    const std::vector<HostTensor> next = run_subgraph(call.subgraphs[1], values);
    std::copy(next.begin(), next.end(), values.begin());
    if (!failure_->empty()) // who knows when it would end
      throw value_error(*failure_);
  }
  values.resize(call.carried);
  store_items(operation, values);
}

void Machine::define_size(const ir::Operation &operation, const ir::Extern &call) {
  if (!failure_->empty()) // it may be why the number is what it is
    throw value_error(*failure_);
  bind_data_size(module_, call.symbol, call.bound, read(call.inputs[0]).get_int64(0), bindings_);
  allocate(operation.outputs[0]);
}

} // namespace tsc::interpret
