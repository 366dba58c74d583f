#include "scheduler/dependency.h"
#include "scheduler/steps.h"

namespace tsc::scheduler {

namespace {

/// True if the operation stores no element: it only allocates.
bool is_no_op(const ir::Module &module, const ir::Operation &operation) {
  const auto *pointwise = std::get_if<ir::Pointwise>(&operation.kind);
  if (pointwise != nullptr && pointwise->allocates_only)
    return true;
  const std::vector<Expr> *sizes = &module.buffer(operation.outputs.at(0)).layout.sizes;
  if (const auto *scatter = std::get_if<ir::Scatter>(&operation.kind))
    sizes = &scatter->sizes;
  for (const Expr size : *sizes)
    if (size.is_integer(0))
      return true;
  return false;
}

void fill_loops(const ir::Module &module, const ir::Operation &operation, Node &node) {
  node.body = ir::simplify_and_reorder(module, ir::trace(module, operation));
  node.numel = symbolic::numel(node.body.iteration_sizes());
  node.reduction_numel = symbolic::numel(node.body.reduction_sizes());
  Accesses accesses = find_accesses(module, node.body);
  node.reads = std::move(accesses.reads);
  node.writes = std::move(accesses.writes);
}

void fill_external(const ir::Operation &operation, Node &node) {
  const auto &call = std::get<ir::Extern>(operation.kind);
  for (const ir::BufferView &input : call.inputs)
    node.reads.push_back(StarDep{input.buffer});
  for (const BufferId output : operation.outputs)
    node.writes.push_back(StarDep{output});
  remove_duplicates(node.reads);
}

/// Loops of size zero keep their own variables, d0, d1, ...; an allocation's are all zero.
void fill_no_op(const ir::Module &module, const ir::Operation &operation, Node &node) {
  const auto *pointwise = std::get_if<ir::Pointwise>(&operation.kind);
  const bool allocates_only = pointwise != nullptr && pointwise->allocates_only;
  for (const BufferId output : operation.outputs) {
    const tensor::Layout &layout = module.buffer(output).layout;
    MemoryDep dependency;
    dependency.buffer = output;
    for (size_t i = 0; i < layout.rank(); ++i) {
      dependency.variables.push_back(symbolic::symbol(symbolic::SymbolSort::dependency, i));
      dependency.sizes.push_back(allocates_only ? Expr(0) : layout.sizes[i]);
    }
    dependency.index = layout.linear_index(dependency.variables);
    node.writes.push_back(dependency);
  }
  node.numel = Expr(0);
}

} // namespace

void create_nodes(State &state) {
  const ir::Module &module = state.module;
  state.producer.assign(module.buffers.size(), ir::kNone);
  state.renamed.assign(module.buffers.size(), ir::kNone);
  state.schedule.users.assign(module.buffers.size(), {});
  state.schedule.nodes.resize(module.operations.size());
  for (OperationId id = 0; id < module.operations.size(); ++id) {
    const ir::Operation &operation = module.operations[id];
    Node &node = state.schedule.nodes[id];
    node.operation = id;
    node.numel = node.reduction_numel = Expr(1);
    if (!operation.is_loops()) {
      const bool joins = std::get<ir::Extern>(operation.kind).library == ir::Library::concatenate;
      node.node_class = joins ? NodeClass::nop : NodeClass::external;
      fill_external(operation, node);
    } else if (is_no_op(module, operation)) {
      node.node_class = NodeClass::nop;
      fill_no_op(module, operation, node);
    } else {
      fill_loops(module, operation, node);
    }
    for (const BufferId output : operation.outputs)
      state.producer[output] = id;
  }
}

} // namespace tsc::scheduler
