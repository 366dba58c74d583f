#include "module_builder.h"

namespace tsc::test {

BufferId ModuleBuilder::add_buffer(std::vector<Expr> sizes) {
  ir::Buffer buffer;
  buffer.dtype = dtype_;
  buffer.layout = tensor::contiguous_layout(std::move(sizes));
  module.buffers.push_back(buffer);
  return static_cast<BufferId>(module.buffers.size() - 1);
}

BufferId ModuleBuilder::input(const std::string &name, std::vector<Expr> sizes) {
  const BufferId id = add_buffer(std::move(sizes));
  module.buffers[id].name = name;
  module.buffers[id].role = ir::Buffer::Role::input;
  module.inputs.push_back(id);
  module.input_specs.emplace_back();
  return id;
}

LoopId ModuleBuilder::load(BufferId buffer, std::vector<Expr> sizes, std::vector<Expr> index) {
  ir::LoopNode whole;
  whole.dtype = dtype_;
  whole.op = ir::Op::load;
  whole.sizes = module.buffers[buffer].layout.sizes;
  whole.buffer = buffer;
  module.loops.push_back(whole);
  ir::LoopNode view;
  view.dtype = dtype_;
  view.op = ir::Op::view;
  view.sizes = std::move(sizes);
  view.operands = {{static_cast<LoopId>(module.loops.size() - 1), std::move(index)}};
  module.loops.push_back(view);
  return static_cast<LoopId>(module.loops.size() - 1);
}

LoopId ModuleBuilder::load(BufferId buffer) {
  ir::LoopNode whole;
  whole.dtype = dtype_;
  whole.op = ir::Op::load;
  whole.sizes = module.buffers[buffer].layout.sizes;
  whole.buffer = buffer;
  module.loops.push_back(whole);
  return static_cast<LoopId>(module.loops.size() - 1);
}

std::vector<Expr> ModuleBuilder::own_index(LoopId node) const {
  std::vector<Expr> index;
  for (size_t i = 0; i < module.loops[node].sizes.size(); ++i)
    index.push_back(ir::variable(i));
  return index;
}

LoopId ModuleBuilder::unary(ir::Op op, LoopId a) {
  ir::LoopNode node;
  node.dtype = dtype_;
  node.op = op;
  node.sizes = module.loops[a].sizes;
  node.operands = {{a, own_index(a)}};
  module.loops.push_back(node);
  return static_cast<LoopId>(module.loops.size() - 1);
}

LoopId ModuleBuilder::binary(ir::Op op, LoopId a, LoopId b) {
  ir::LoopNode node;
  node.dtype = dtype_;
  node.op = op;
  node.sizes = module.loops[a].sizes;
  node.operands = {{a, own_index(a)}, {b, own_index(b)}};
  module.loops.push_back(node);
  return static_cast<LoopId>(module.loops.size() - 1);
}

BufferId ModuleBuilder::add_operation(std::vector<Expr> sizes, ir::Operation operation) {
  const BufferId id = add_buffer(std::move(sizes));
  const size_t number = module.operations.size();
  module.buffers[id].name = "buf" + std::to_string(number);
  module.buffers[id].operation = static_cast<ir::OperationId>(number);
  operation.name = "op" + std::to_string(number);
  operation.outputs = {id};
  module.operations.push_back(std::move(operation));
  return id;
}

BufferId ModuleBuilder::pointwise(LoopId value) {
  ir::Operation operation;
  operation.kind = ir::Pointwise{{value, own_index(value)}};
  return add_operation(module.loops[value].sizes, std::move(operation));
}

BufferId ModuleBuilder::reduce(LoopId value, ir::ReductionKind kind) {
  std::vector<Expr> sizes = module.loops[value].sizes;
  ir::Reduction reduction;
  reduction.kind = kind;
  reduction.source_dtype = dtype_;
  reduction.reduction_sizes = {sizes.back()};
  reduction.inputs = {{value, own_index(value)}};
  sizes.pop_back();
  ir::Operation operation;
  operation.kind = std::move(reduction);
  return add_operation(std::move(sizes), std::move(operation));
}

BufferId ModuleBuilder::matmul(BufferId a, BufferId b, std::vector<Expr> sizes) {
  ir::Extern call;
  call.kernel = "extern_kernels.mm";
  for (const BufferId operand : {a, b})
    call.inputs.push_back({operand, module.buffers[operand].layout, module.buffers[operand].dtype});
  ir::Operation operation;
  operation.kind = std::move(call);
  return add_operation(std::move(sizes), std::move(operation));
}

BufferId ModuleBuilder::mutate(BufferId target, LoopId value) {
  const BufferId id = pointwise(value);
  module.buffers[id].layout_kind = ir::LayoutKind::mutation;
  module.buffers[id].mutates = target;
  return id;
}

BufferId ModuleBuilder::scatter_add(BufferId target, BufferId index, BufferId source) {
  const LoopId value = load(source), position = load(index);
  ir::Scatter scatter;
  scatter.sizes = module.loops[value].sizes;
  scatter.value = {value, own_index(value)};
  scatter.indices = {{position, own_index(position)}};
  scatter.extents = module.buffers[target].layout.sizes;
  scatter.index = {ir::operand_value(1)};
  scatter.mode = ir::StoreMode::atomic_add;
  ir::Operation operation;
  operation.kind = std::move(scatter);
  const BufferId id = add_operation(module.buffers[target].layout.sizes, std::move(operation));
  module.buffers[id].layout_kind = ir::LayoutKind::mutation;
  module.buffers[id].mutates = target;
  return id;
}

void ModuleBuilder::output(BufferId buffer) {
  ir::Output output;
  output.value =
      ir::BufferView{buffer, module.buffers[buffer].layout, module.buffers[buffer].dtype};
  module.outputs.push_back(output);
}

} // namespace tsc::test
