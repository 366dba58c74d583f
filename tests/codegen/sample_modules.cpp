#include "sample_modules.h"

#include "target/target.h"

namespace tsc::test {

using ir::Op;
using ir::ReductionKind;

LoopId SampleModule::add(ir::LoopNode node) {
  module.loops.push_back(std::move(node));
  return static_cast<LoopId>(module.loops.size() - 1);
}

BufferId SampleModule::add_buffer(DType dtype, std::vector<Expr> sizes) {
  ir::Buffer buffer;
  buffer.name = "buf" + std::to_string(module.operations.size());
  buffer.dtype = dtype;
  buffer.layout = tensor::contiguous_layout(std::move(sizes));
  module.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(module.buffers.size() - 1);
}

BufferId SampleModule::input(const std::string &name, DType dtype, std::vector<Expr> sizes) {
  const BufferId id = add_buffer(dtype, std::move(sizes));
  module.buffers[id].name = name;
  module.buffers[id].role = ir::Buffer::Role::input;
  module.inputs.push_back(id);
  module.input_specs.push_back({});
  return id;
}

std::vector<Expr> SampleModule::own_index(LoopId node) const {
  std::vector<Expr> index;
  for (size_t k = 0; k < module.loops[node].sizes.size(); ++k)
    index.push_back(ir::variable(k));
  return index;
}

LoopId SampleModule::load_at(BufferId buffer, std::vector<Expr> sizes, std::vector<Expr> index) {
  ir::LoopNode whole;
  whole.op = Op::load;
  whole.dtype = module.buffers[buffer].dtype;
  whole.sizes = module.buffers[buffer].layout.sizes;
  whole.buffer = buffer;
  const LoopId source = add(std::move(whole));
  ir::LoopNode view;
  view.op = Op::view;
  view.dtype = module.buffers[buffer].dtype;
  view.sizes = std::move(sizes);
  view.operands = {{source, std::move(index)}};
  return add(std::move(view));
}

LoopId SampleModule::load(BufferId buffer) {
  ir::LoopNode node;
  node.op = Op::load;
  node.dtype = module.buffers[buffer].dtype;
  node.sizes = module.buffers[buffer].layout.sizes;
  node.buffer = buffer;
  return add(std::move(node));
}

LoopId SampleModule::apply(Op op, std::vector<LoopId> arguments) {
  ir::LoopNode node;
  node.op = op;
  node.dtype = module.loops[arguments.back()].dtype;
  node.sizes = module.loops[arguments.back()].sizes;
  for (const LoopId argument : arguments)
    node.operands.push_back({argument, own_index(argument)});
  return add(std::move(node));
}

LoopId SampleModule::compare(Op op, LoopId a, LoopId b) {
  const LoopId id = apply(op, {a, b});
  module.loops[id].dtype = DType::boolean;
  return id;
}

LoopId SampleModule::to(LoopId a, DType dtype) {
  if (module.loops[a].dtype == dtype)
    return a;
  const DType source = module.loops[a].dtype;
  const LoopId id = apply(Op::to_dtype, {a});
  module.loops[id].dtype = dtype;
  module.loops[id].source_dtype = source;
  return id;
}

LoopId SampleModule::constant(double value, LoopId like) {
  ir::LoopNode node;
  node.op = Op::constant;
  node.dtype = module.loops[like].dtype;
  node.sizes = module.loops[like].sizes;
  node.constant = value;
  return add(std::move(node));
}

BufferId SampleModule::add_operation(DType dtype, std::vector<Expr> sizes,
                                     ir::Operation operation) {
  const BufferId buffer = add_buffer(dtype, std::move(sizes));
  operation.name = "op" + std::to_string(module.operations.size());
  operation.outputs = {buffer};
  module.buffers[buffer].operation = static_cast<ir::OperationId>(module.operations.size());
  module.operations.push_back(std::move(operation));
  return buffer;
}

BufferId SampleModule::pointwise(LoopId value) {
  ir::Operation operation;
  operation.kind = ir::Pointwise{{value, own_index(value)}};
  return add_operation(module.loops[value].dtype, module.loops[value].sizes, std::move(operation));
}

BufferId SampleModule::reduce(ReductionKind kind, LoopId value, DType dtype, size_t item) {
  const ir::LoopNode &node = module.loops[value];
  std::vector<Expr> sizes(node.sizes.begin(), node.sizes.end() - 1);
  ir::Reduction reduction;
  reduction.kind = kind;
  reduction.source_dtype = node.dtype;
  reduction.reduction_sizes = {node.sizes.back()};
  reduction.inputs = {{value, own_index(value)}};
  reduction.item = item;
  ir::Operation operation;
  operation.kind = std::move(reduction);
  return add_operation(dtype, std::move(sizes), std::move(operation));
}

BufferId SampleModule::reduce_first(ReductionKind kind, LoopId value, DType dtype) {
  const ir::LoopNode &node = module.loops[value];
  const size_t rank = node.sizes.size();
  std::vector<Expr> sizes(node.sizes.begin() + 1, node.sizes.end()),
      index = {ir::variable(rank - 1)};
  for (size_t k = 0; k + 1 < rank; ++k)
    index.push_back(ir::variable(k));
  ir::Reduction reduction;
  reduction.kind = kind;
  reduction.source_dtype = node.dtype;
  reduction.reduction_sizes = {node.sizes[0]};
  reduction.inputs = {{value, std::move(index)}};
  ir::Operation operation;
  operation.kind = std::move(reduction);
  return add_operation(dtype, std::move(sizes), std::move(operation));
}

LoopId SampleModule::spread(BufferId buffer, LoopId like) {
  const std::vector<Expr> sizes = module.loops[like].sizes;
  std::vector<Expr> index;
  for (size_t k = 0; k + 1 < sizes.size(); ++k)
    index.push_back(ir::variable(k));
  return load_at(buffer, sizes, std::move(index));
}

void SampleModule::output(BufferId buffer) {
  ir::Output output;
  output.value =
      ir::BufferView{buffer, module.buffers[buffer].layout, module.buffers[buffer].dtype};
  module.outputs.push_back(std::move(output));
}

scheduler::Schedule SampleModule::schedule() const {
  scheduler::ScheduleOptions options;
  options.target = &target::find_target("sm_90");
  return scheduler::schedule(module, options);
}

SampleModule row_sum(int64_t rows, int64_t columns, DType dtype) {
  SampleModule m;
  m.output(m.reduce(ReductionKind::sum, m.load(m.input("x", dtype, {rows, columns})), dtype));
  return m;
}

SampleModule add_sum(int64_t rows, int64_t columns) {
  SampleModule m;
  const BufferId a = m.input("a", DType::f32, {rows, columns}),
                 b = m.input("b", DType::f32, {rows, columns});
  const LoopId x = m.load(a), y = m.load(b);
  m.output(m.reduce(ReductionKind::sum, m.apply(Op::add, {x, y}), DType::f32));
  return m;
}

SampleModule softmax(Expr rows, Expr columns, DType dtype) {
  SampleModule m;
  const LoopId x = m.to(m.load(m.input("x", dtype, {rows, columns})), DType::f32);
  const BufferId max = m.reduce(ReductionKind::online_softmax_reduce, x, DType::f32, 0);
  const BufferId sum = m.reduce(ReductionKind::online_softmax_reduce, x, DType::f32, 1);
  const LoopId exp = m.apply(Op::exp, {m.apply(Op::sub, {x, m.spread(max, x)})});
  m.output(m.pointwise(m.to(m.apply(Op::truediv, {exp, m.spread(sum, x)}), dtype)));
  return m;
}

SampleModule layer_norm_gelu(int64_t rows, int64_t columns, DType dtype) {
  SampleModule m;
  const BufferId a = m.input("a", dtype, {rows, columns}), b = m.input("b", dtype, {rows, columns});
  const BufferId w = m.input("w", dtype, {columns}), bias = m.input("bias", dtype, {columns});
  const std::vector<Expr> sizes = {rows, columns};
  const LoopId left = m.load(a), right = m.load(b);
  const LoopId x = m.to(m.apply(Op::add, {left, right}), DType::f32);
  const BufferId mean = m.reduce(ReductionKind::welford_reduce, x, DType::f32, 0);
  const BufferId m2 = m.reduce(ReductionKind::welford_reduce, x, DType::f32, 1);
  const LoopId count = m.constant(static_cast<double>(columns), x), epsilon = m.constant(1e-5, x);
  const LoopId variance = m.apply(Op::truediv, {m.spread(m2, x), count});
  const LoopId scale = m.apply(Op::rsqrt, {m.apply(Op::add, {variance, epsilon})});
  const LoopId centred = m.apply(Op::sub, {x, m.spread(mean, x)});
  const LoopId normal = m.apply(Op::mul, {centred, scale});
  const LoopId weight = m.to(m.load_at(w, sizes, {ir::variable(1)}), DType::f32);
  const LoopId shift = m.to(m.load_at(bias, sizes, {ir::variable(1)}), DType::f32);
  const LoopId y =
      m.to(m.to(m.apply(Op::add, {m.apply(Op::mul, {normal, weight}), shift}), dtype), DType::f32);
  const LoopId half = m.apply(Op::mul, {y, m.constant(0.5, y)});
  const LoopId erf = m.apply(Op::erf, {m.apply(Op::mul, {y, m.constant(0.7071067811865476, y)})});
  const LoopId gelu = m.apply(Op::mul, {half, m.apply(Op::add, {erf, m.constant(1, y)})});
  m.output(m.pointwise(m.to(gelu, dtype)));
  return m;
}

SampleModule column_sum(int64_t rows, int64_t columns, DType dtype) {
  SampleModule m;
  m.output(m.reduce_first(ReductionKind::sum, m.load(m.input("x", dtype, {rows, columns})), dtype));
  return m;
}

SampleModule broadcast_relu(Expr rows, Expr columns, DType dtype) {
  SampleModule m;
  const BufferId a = m.input("a", dtype, {rows, columns}), b = m.input("b", dtype, {rows});
  const BufferId c = m.input("c", dtype, {columns});
  const std::vector<Expr> sizes = {rows, columns};
  const LoopId row = m.load_at(b, sizes, {ir::variable(0)}),
               column = m.load_at(c, sizes, {ir::variable(1)});
  const LoopId x = m.load(a);
  m.output(
      m.pointwise(m.apply(Op::relu, {m.apply(Op::add, {x, m.apply(Op::mul, {row, column})})})));
  return m;
}

SampleModule convolved_relu(Expr planes, Expr height, Expr width) {
  SampleModule m;
  const auto halved = [](Expr size) { return symbolic::floor_div(size - 1, 2) + 1; };
  const Expr rows = halved(height), columns = halved(width);
  const BufferId x = m.input("x", DType::f32, {planes, height, width});
  const std::vector<Expr> sizes = {planes, rows, columns};
  const LoopId sampled =
      m.load_at(x, sizes, {ir::variable(0), 2 * ir::variable(1), 2 * ir::variable(2)});
  const BufferId y = m.pointwise(m.apply(Op::relu, {sampled}));
  m.output(y);
  const BufferId bias = m.input("bias", DType::f32, {rows, columns});
  const LoopId shift = m.load_at(bias, sizes, {ir::variable(1), ir::variable(2)});
  const LoopId value = m.load(y);
  m.output(m.pointwise(m.apply(Op::add, {value, shift})));
  return m;
}

SampleModule with_symbols(SampleModule sample, const std::vector<graph::SymbolRange> &symbols) {
  sample.module.symbols = symbols;
  for (const graph::SymbolRange &range : symbols)
    sample.module.ranges.set(range.symbol, {range.low, range.high});
  return sample;
}

SampleModule transposed_add(Expr rows, Expr columns, DType dtype) {
  SampleModule m;
  const BufferId a = m.input("a", dtype, {columns, rows}), b = m.input("b", dtype, {rows, columns});
  const LoopId turned = m.load_at(a, {rows, columns}, {ir::variable(1), ir::variable(0)});
  const LoopId straight = m.load(b);
  m.output(m.pointwise(m.apply(Op::relu, {m.apply(Op::add, {turned, straight})})));
  return m;
}

} // namespace tsc::test
