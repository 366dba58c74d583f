// Branches and loops: a call whose operands lie in memory, its subgraphs modules of their own.
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/tuple_call.h"
#include "support/diagnostic.h"

namespace tsc::lowering {

namespace {

/// `value` in memory; as the graph says it lies, where that is dense.
ir::BufferView operand_view(Context &context, TensorValue value, const Layout &layout) {
  if (value.dtype != value.storage->dtype) // reinterpreted bits
    value = copy(context, value);
  return is_dense(layout.sizes, layout.strides) ? require_strides(context, value, layout.strides)
                                                : realized_view(context, value);
}

std::vector<ir::BufferView> operand_views(Context &context, const ops::Call &call,
                                          const graph::Argument &operands) {
  std::vector<ir::BufferView> views;
  for (const graph::Argument &operand : *operands.list()) {
    const TensorValue value = tensor_value(context, call, operand);
    const graph::Value &known = *context.graph.node(operand.node()->id).value;
    views.push_back(operand_view(context, value, known.tensor()->layout));
  }
  return views;
}

/// Lowers the subgraph that `argument` names, its inputs as `layouts` say. Returns its number.
uint32_t lower_subgraph(Context &context, const graph::Argument &argument,
                        const std::vector<Layout> &layouts,
                        const std::vector<graph::TensorMeta> &results) {
  const std::string &name = std::get<graph::GraphRef>(argument.value).name;
  graph::Graph subgraph = context.graph.subgraphs.at(name);
  for (size_t k = 0; k < layouts.size(); ++k) { // placeholders stand first
    graph::TensorMeta meta = *subgraph.nodes[k].value->tensor();
    meta.layout = layouts[k];
    subgraph.nodes[k].value = graph::Value{meta};
  }
  LoweringOptions options{&context.policy, context.target};
  options.results = &results;
  ir::Module module = lower(subgraph, options);
  module.name = name;
  context.module.subgraphs.push_back(std::move(module));
  return static_cast<uint32_t>(context.module.subgraphs.size() - 1);
}

std::vector<graph::TensorMeta> results_of(const ops::Call &call) {
  std::vector<graph::TensorMeta> results;
  for (const graph::Value &item : *call.node().value->list())
    results.push_back(*item.tensor());
  return results;
}

NodeValue cond(Context &context, const ops::Call &call) {
  ir::Extern branch;
  branch.kernel = "torch.ops.higher_order.cond";
  branch.ir_class = "Conditional";
  branch.library = ir::Library::conditional;
  if (call["pred"].node() != nullptr) {
    TensorValue predicate = tensor_argument(context, call, "pred");
    branch.inputs.push_back(require_strides(context, predicate, {}));
  } else {
    branch.condition = call.size("pred");
  }
  const std::vector<ir::BufferView> operands = operand_views(context, call, call["operands"]);
  branch.inputs.insert(branch.inputs.end(), operands.begin(), operands.end());
  std::vector<Layout> layouts;
  layouts.reserve(operands.size());
  for (const ir::BufferView &operand : operands)
    layouts.push_back(operand.layout);
  const std::vector<graph::TensorMeta> results = results_of(call);
  for (const char *graph : {"true_graph", "false_graph"})
    branch.subgraphs.push_back(lower_subgraph(context, call[graph], layouts, results));
  return tuple_call(context, std::move(branch), results);
}

NodeValue while_loop(Context &context, const ops::Call &call) {
  const std::vector<graph::TensorMeta> results = results_of(call);
  ir::Extern loop;
  loop.kernel = "torch.ops.higher_order.while_loop";
  loop.ir_class = "WhileLoop";
  loop.library = ir::Library::while_loop;
  loop.carried = results.size();
  std::vector<Layout> layouts;
  const graph::Argument::List &carried = *call["carried"].list();
  for (size_t k = 0; k < carried.size(); ++k) {
    const TensorValue value = tensor_value(context, call, carried[k]);
    loop.inputs.push_back(operand_view(context, value, results[k].layout));
    layouts.push_back(results[k].layout);
  }
  for (const ir::BufferView &other : operand_views(context, call, call["others"])) {
    loop.inputs.push_back(other);
    layouts.push_back(other.layout);
  }
  graph::TensorMeta truth;
  truth.dtype = DType::boolean;
  loop.subgraphs.push_back(lower_subgraph(context, call["cond_graph"], layouts, {truth}));
  loop.subgraphs.push_back(lower_subgraph(context, call["body_graph"], layouts, results));
  return tuple_call(context, std::move(loop), results);
}

} // namespace

void add_control_flow(Registry &registry) {
  registry["cond"] = cond;
  registry["while_loop"] = while_loop;
}

} // namespace tsc::lowering
