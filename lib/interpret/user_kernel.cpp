// Kernels that users brought: what runs them is the caller's business.
#include "interpret/machine.h"

#include "support/diagnostic.h"

namespace tsc::interpret {

using tensor::HostTensor;

namespace {

/// What a kernel has written to the memory of `written` with such strides, as a tensor.
HostTensor as_laid_out(const HostTensor &written, const std::vector<int64_t> &strides) {
  HostTensor result(written.dtype(), written.sizes());
  Storage typed;
  typed.allocate(written.dtype(), 1);
  const std::vector<int64_t> &sizes = written.sizes();
  for (int64_t i = 0; i < written.numel(); ++i) {
    int64_t place = 0, rest = i;
    for (size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis])
      place += rest % sizes[axis] * strides[axis];
    read_element(typed, 0, written, place);
    write_element(result, i, typed, 0);
  }
  return result;
}

} // namespace

void Machine::user_kernel(const ir::Operation &operation, const ir::Extern &call) {
  if (user_kernels_ == nullptr || !*user_kernels_)
    throw support::InternalError("interpret", "", "nothing runs " + call.custom->name);
  UserKernelCall run;
  run.call = call.custom.get();
  run.bindings = &bindings_;
  for (const ir::BufferView &view : call.inputs) {
    const HostTensor read = this->read(view); // of float64 where nothing is rounded
    Storage typed;
    typed.allocate(view.dtype, read.numel());
    HostTensor input(view.dtype, values_of(view.layout.sizes));
    for (int64_t i = 0; i < read.numel(); ++i) {
      read_element(typed, i, read, i);
      write_element(input, i, typed, i);
    }
    run.inputs.push_back(std::move(input));
    tensor::Layout layout;
    for (size_t axis = 0; axis < view.layout.rank(); ++axis) {
      layout.sizes.emplace_back(value_of(view.layout.sizes[axis]));
      layout.strides.emplace_back(value_of(view.layout.strides[axis]));
    }
    run.input_layouts.push_back(std::move(layout));
  }
  const auto first = static_cast<size_t>(&operation - module_.operations.data()) + 1;
  const auto item = [&](size_t i) -> const ir::Buffer & {
    return module_.buffer(module_.operations[first + i].outputs[0]);
  };
  for (size_t i = 0; i < call.custom->results; ++i)
    run.results.emplace_back(item(i).dtype, values_of(item(i).layout.sizes));
  if (call.custom->has_workspace)
    run.workspace_bytes = value_of(item(call.custom->results).layout.sizes[0]);
  (*user_kernels_)(run);
  for (size_t i = 0; i < run.results.size(); ++i)
    run.results[i] = as_laid_out(run.results[i], values_of(item(i).layout.strides));
  store_items(operation, run.results);
}

} // namespace tsc::interpret
