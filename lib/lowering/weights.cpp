#include "lowering/weights.h"

#include "ir/body.h"
#include "lowering/realize.h"
#include "ops/table/operator.h"

#include <algorithm>
#include <set>

namespace tsc::lowering {

std::vector<bool> find_weight_values(const graph::Graph &graph) {
  std::vector<bool> found(graph.nodes.size(), false);
  std::set<std::string> changed;
  for (const graph::OutputSpec &output : graph.outputs)
    if (output.kind != graph::OutputKind::user)
      changed.insert(output.target);
  for (const graph::InputSpec &input : graph.inputs) {
    const bool weight = input.kind == graph::InputKind::parameter ||
                        input.kind == graph::InputKind::buffer ||
                        input.kind == graph::InputKind::constant_tensor;
    found[input.node] = weight && changed.count(input.target) == 0;
  }
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    const graph::Node &node = graph.nodes[id];
    if (node.kind == graph::NodeKind::get_attr)
      found[id] = true;
    if (node.kind != graph::NodeKind::call_function)
      continue;
    size_t used = 0;
    bool weights = true;
    const auto add = [&](graph::NodeRef argument) {
      ++used;
      weights = weights && found[argument.id];
    };
    for (const graph::Argument &argument : node.args)
      graph::for_each_node(argument, add);
    for (const auto &[name, argument] : node.kwargs)
      graph::for_each_node(argument, add);
    const ops::Operator *op = ops::find_operator(node.target);
    found[id] = used > 0 && weights && op != nullptr && op->effect != ops::Effect::ordered;
  }
  return found;
}

void realize_ahead(Context &context, TensorValue &value) {
  Storage &storage = *value.storage;
  if (storage.realized() || !context.weight_values[context.current])
    return;
  const std::vector<graph::NodeId> &users = context.users[context.current];
  if (std::all_of(users.begin(), users.end(),
                  [&](graph::NodeId user) { return context.weight_values[user]; }))
    return;
  const ir::LoopBody body = ir::trace_value(context.module, storage.loop);
  const auto any = [&](const auto &predicate) {
    return std::any_of(body.ops.begin(), body.ops.end(), predicate);
  };
  if (any([](const ir::BodyOp &op) { return op.op == Op::load; }) &&
      any([](const ir::BodyOp &op) { return ir::op_cost(op.op) != ir::OpCost::instruction; }))
    realize(context, storage);
}

} // namespace tsc::lowering
