#include "scheduler/dependency.h"
#include "scheduler/steps.h"

#include <algorithm>
#include <map>

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

/// Calls see(e) for what the operation of `node` needs to know of sizes.
template <class See>
void see_sizes(const ir::Module &module, const ir::Operation &operation, const Node &node,
               const See &see) {
  const auto see_layout = [&](const tensor::Layout &layout) {
    std::for_each(layout.sizes.begin(), layout.sizes.end(), see);
    std::for_each(layout.strides.begin(), layout.strides.end(), see);
    see(layout.offset);
  };
  for (const BufferId output : operation.outputs)
    see_layout(module.buffer(output).layout);
  for (const std::vector<Expr> *list : {&node.body.sizes, &node.body.indices})
    std::for_each(list->begin(), list->end(), see);
  for (const ir::BodyOp &op : node.body.ops)
    if (op.op == ir::Op::set_indirect)
      see(op.extent);
  const auto *call = std::get_if<ir::Extern>(&operation.kind);
  if (call == nullptr)
    return;
  for (const ir::BufferView &input : call->inputs)
    see_layout(input.layout);
  for (const std::optional<Expr> &e : {call->condition, call->bound})
    if (e)
      see(*e);
  for (const std::vector<Expr> *parts : {&call->sends, &call->receives})
    std::for_each(parts->begin(), parts->end(), see);
}

/// Sizes that the data decides are known behind the operations that define them.
class SizeDefinitions {
public:
  explicit SizeDefinitions(const ir::Module &module) : module_(module) {}

  void wait_for(const ir::Operation &operation, Node &node) {
    const auto *call = std::get_if<ir::Extern>(&operation.kind);
    if (!buffers_.empty() && call != nullptr && ir::has_subgraphs(call->library)) {
      for (const auto &[symbol, buffer] : buffers_) // whatever they mention
        node.reads.push_back(StarDep{buffer});
    } else if (!buffers_.empty()) {
      see_sizes(module_, operation, node, [&](Expr e) {
        if (e.is_integer())
          return;
        for (const Expr symbol : symbolic::free_symbols(e))
          if (const auto found = buffers_.find(symbol); found != buffers_.end())
            node.reads.push_back(StarDep{found->second});
      });
      remove_duplicates(node.reads);
    }
    if (call != nullptr && call->library == ir::Library::define_size)
      buffers_.emplace(call->symbol, operation.outputs[0]);
  }

private:
  const ir::Module &module_;
  std::map<Expr, BufferId, symbolic::ExprLess> buffers_;
};

} // namespace

void create_nodes(State &state) {
  const ir::Module &module = state.module;
  state.producer.assign(module.buffers.size(), ir::kNone);
  state.renamed.assign(module.buffers.size(), ir::kNone);
  state.schedule.users.assign(module.buffers.size(), {});
  state.schedule.nodes.resize(module.operations.size());
  SizeDefinitions sizes(module);
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
    sizes.wait_for(operation, node);
    for (const BufferId output : operation.outputs)
      state.producer[output] = id;
  }
}

} // namespace tsc::scheduler
