#include "ops/passes/seed_random.h"

#include "ops/families/draws.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;

namespace {

/// Appends the placeholder of the state.
NodeId add_state(GraphBuilder &builder, tensor::Device device) {
  Node state;
  state.name = builder.fresh_name("tsc.random_state.default");
  state.kind = NodeKind::placeholder;
  state.target = state.name;
  state.value = contiguous_value(DType::i64, {Expr(2)}, device);
  return builder.append(std::move(state));
}

/// state + [0, 1]
Argument next_state(GraphBuilder &builder, NodeId state, tensor::Device device) {
  Node source; // what is emitted stands for no node of the user
  builder.set_source(source);
  Argument step = builder.emit("prims.iota.default", {2},
                               {{"start", 0},
                                {"step", 1},
                                {"dtype", DType::i64},
                                {"device", device},
                                {"requires_grad", false}});
  return builder.call(kAdd, {graph::NodeRef{state}, step});
}

Graph with_state(Graph graph, tensor::Device device) {
  Rewrite rewrite(std::move(graph));
  GraphBuilder &builder = rewrite.builder();
  NodeId state = 0;
  Argument next;
  int64_t streams = 0;
  bool has_state = false;
  for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    const Node &old = rewrite.source().node(id);
    if (old.kind != NodeKind::placeholder && !has_state) {
      state = add_state(builder, device);
      has_state = true;
    }
    Node node = rewrite.take_mapped(id);
    if (node.kind == NodeKind::call_function && is_draw(node.target)) {
      node.args[0] = graph::NodeRef{state};
      node.args[1] = streams++;
    }
    if (node.kind == NodeKind::output) {
      next = next_state(builder, state, device);
      const Arguments *list = node.args.at(0).list();
      Arguments values = list ? *list : Arguments{node.args[0]};
      values.insert(values.begin(), next);
      node.args[0] = std::move(values);
    }
    rewrite.replace(id, graph::NodeRef{builder.append(std::move(node))});
  }
  Graph result = rewrite.take();
  const std::string name = result.node(state).name;
  result.inputs.push_back({graph::InputKind::random_state, state, "", true, {}});
  result.outputs.insert(result.outputs.begin(),
                        {graph::OutputKind::input_mutation, std::move(next), name});
  return result;
}

} // namespace

graph::Graph seed_random(graph::Graph graph, const PassOptions &) {
  const auto draw = std::find_if(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) {
    return node.kind == NodeKind::call_function && is_draw(node.target);
  });
  if (draw == graph.nodes.end())
    return graph;
  const tensor::Device device = draw->value->tensor()->device;
  return with_state(std::move(graph), device);
}

} // namespace tsc::ops
