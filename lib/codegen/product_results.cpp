#include "codegen/product_results.h"

#include "support/diagnostic.h"

namespace tsc::codegen {

using ir::Op;
using support::require;
using symbolic::SymbolSort;

namespace {

Value load_of(const ir::Module &module, BufferId buffer, Expr index) {
  Value value;
  value.op = Op::load;
  value.buffer = buffer;
  value.dtype = module.buffer(buffer).dtype;
  value.index = index;
  return value;
}

/// `loops`, which store what they load where it is.
KernelGraph stored_as_loaded(KernelGraph loops, Value load) {
  Value store = load;
  store.op = Op::store;
  store.args = {0};
  loops.values = {std::move(load), std::move(store)};
  loops.stores = {1};
  assign_phases(loops);
  return loops;
}

/// c where a result is.
Expr index_of_added(const ir::Extern &call, const std::array<Expr, 3> &at) {
  const tensor::Layout &layout = call.inputs[2].layout;
  Expr index = layout.offset;
  for (size_t k = 0; k < layout.rank(); ++k)
    if (!layout.sizes[k].is_integer(1))
      index = index + at[k + 3 - layout.rank()] * layout.strides[k];
  return index;
}

} // namespace

bool reads_results(const ir::Module &module, const Value &value, BufferId out) {
  return value.op == Op::load && module.storage_of(value.buffer) == module.storage_of(out);
}

KernelGraph stored_results(const ir::Module &module, BufferId out, Expr rows, int64_t columns) {
  KernelGraph graph;
  graph.ranges = module.ranges;
  const Expr sizes[] = {rows, Expr(columns)};
  const tensor::Layout &layout = module.buffer(out).layout;
  Expr index = 0;
  for (size_t k = 0; k < 2; ++k) {
    graph.element_variables.push_back(symbolic::symbol(SymbolSort::dimension, k));
    graph.element_sizes.push_back(sizes[k]);
    graph.ranges.set_size(graph.element_variables[k], sizes[k]);
    index = index + graph.element_variables[k] * layout.strides[layout.rank() - 2 + k];
  }
  return stored_as_loaded(std::move(graph), load_of(module, out, index));
}

KernelGraph moved_operand(const ir::Module &module, const ir::BufferView &operand, Expr column,
                          Expr term) {
  KernelGraph graph;
  graph.ranges = module.ranges;
  const tensor::Layout &layout = operand.layout;
  graph.element_variables = {column, term};
  graph.element_sizes = {layout.sizes[1], layout.sizes[0]};
  graph.ranges.set_size(column, layout.sizes[1]);
  graph.ranges.set_size(term, layout.sizes[0]);
  return stored_as_loaded(std::move(graph), load_of(module, operand.buffer,
                                                    layout.offset + term * layout.strides[0] +
                                                        column * layout.strides[1]));
}

KernelGraph with_results(const ir::Module &module, const ir::Extern &call, BufferId out,
                         KernelGraph graph, const std::array<Expr, 3> &at) {
  const bool added = call.inputs.size() > 2 && call.beta != 0;
  ValueId results = ir::kNone;
  Expr place;
  std::vector<ValueId> renumbered(graph.values.size());
  KernelGraph result = graph;
  result.values.clear();
  const auto push = [&](Value value) {
    result.values.push_back(std::move(value));
    return static_cast<ValueId>(result.values.size() - 1);
  };
  const auto times = [&](ValueId x, double factor) {
    if (factor == 1)
      return x;
    Value constant;
    constant.dtype = DType::f32;
    constant.constant = factor;
    Value product;
    product.op = Op::mul;
    product.dtype = DType::f32;
    product.args = {x, push(std::move(constant))};
    return push(std::move(product));
  };
  for (ValueId id = 0; id < graph.values.size(); ++id) {
    Value value = graph.values[id];
    for (ValueId &arg : value.args)
      arg = renumbered[arg];
    if (value.guard != ir::kNone)
      value.guard = renumbered[value.guard];
    if (!reads_results(module, value, out)) {
      renumbered[id] = push(std::move(value));
      continue;
    }
    // They are there, whoever reads them under whatever mask, and are at one place.
    if (results != ir::kNone) {
      require(value.index == place, "codegen", "a product's results are read elsewhere");
      renumbered[id] = results;
      continue;
    }
    place = value.index;
    value.guard = ir::kNone;
    results = renumbered[id] = times(push(std::move(value)), call.alpha);
    if (!added)
      continue;
    Value sum;
    sum.op = Op::add;
    sum.dtype = DType::f32;
    const ValueId more =
        times(push(load_of(module, call.inputs[2].buffer, index_of_added(call, at))), call.beta);
    sum.args = {results, more};
    results = renumbered[id] = push(std::move(sum));
  }
  for (ValueId &store : result.stores)
    store = renumbered[store];
  assign_phases(result);
  return result;
}

bool is_heavy(const KernelGraph &finish) {
  int count = 0;
  for (const Value &value : finish.values)
    switch (ir::op_cost(value.op)) {
    case ir::OpCost::instruction:
      break;
    case ir::OpCost::function:
      ++count;
      break;
    case ir::OpCost::angle:
    case ir::OpCost::series:
      count += 2;
      break;
    }
  return count > 1;
}

} // namespace tsc::codegen
