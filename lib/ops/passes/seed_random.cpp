#include "ops/passes/seed_random.h"

#include "ops/families/control_flow.h"
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

/// Whether the graph or one of its branches and loops draws.
bool draws(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), is_seeded_draw) ||
         std::any_of(graph.subgraphs.begin(), graph.subgraphs.end(),
                     [](const auto &entry) { return draws(entry.second); });
}

class Seeder {
public:
  explicit Seeder(tensor::Device device) : device_(device) {}

  Graph whole(Graph graph) {
    Given given = with_state(std::move(graph), SIZE_MAX,
                             [&](GraphBuilder &builder, Node &output, NodeId state) {
                               Argument next = next_state(builder, state, device_);
                               Arguments values = list_of(output);
                               values.insert(values.begin(), next);
                               output.args[0] = std::move(values);
                               return next;
                             });
    const std::string name = given.graph.node(given.state).name;
    given.graph.inputs.push_back({graph::InputKind::random_state, given.state, "", true, {}});
    given.graph.outputs.insert(given.graph.outputs.begin(),
                               {graph::OutputKind::input_mutation, given.yielded, name});
    return std::move(given.graph);
  }

private:
  struct Given {
    Graph graph;
    NodeId state = 0;
    Argument yielded;
  };
  tensor::Device device_;
  int64_t streams_ = 0; // of the graph and of what it calls

  static Arguments list_of(const Node &output) {
    const Arguments *list = output.args.at(0).list();
    return list ? *list : Arguments{output.args[0]};
  }
  /// Two numbers that stand for a seed and a call number of their own.
  Argument state_of_its_own(GraphBuilder &builder, NodeId state) {
    return builder.call("tsc.random_bits.default",
                        {graph::NodeRef{state}, streams_++, Arguments{2}},
                        {{"dtype", DType::i64}, {"device", device_}});
  }

  /// `graph` with the state as placeholder number `position` (or the last), which every draw reads;
  /// `finish` is given its output node.
  template <class Finish> Given with_state(Graph graph, size_t position, const Finish &finish) {
    std::map<std::string, Graph> subgraphs = std::move(graph.subgraphs);
    const auto placeholders = static_cast<size_t>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(),
                      [](const Node &node) { return node.kind == NodeKind::placeholder; }));
    position = std::min(position, placeholders);
    Rewrite rewrite(std::move(graph));
    GraphBuilder &builder = rewrite.builder();
    Given given;
    for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
      if (id == position)
        given.state = add_state(builder, device_);
      Node node = rewrite.take_mapped(id);
      if (is_seeded_draw(node)) {
        node.args[0] = graph::NodeRef{given.state};
        node.args[1] = streams_++;
      } else if (is_control_flow(node)) {
        seed_call(builder, node, subgraphs, given.state);
      } else if (node.kind == NodeKind::output) {
        given.yielded = finish(builder, node, given.state);
      }
      rewrite.replace(id, graph::NodeRef{builder.append(std::move(node))});
    }
    given.graph = rewrite.take();
    given.graph.subgraphs = std::move(subgraphs);
    return given;
  }

  /// The state is one more operand of a branch. A loop carries one of its own, from round to round
  /// another.
  void seed_call(GraphBuilder &builder, Node &node, std::map<std::string, Graph> &subgraphs,
                 NodeId state) {
    const std::vector<std::string> names = subgraph_names(node);
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string &name) { return draws(subgraphs.at(name)); }))
      return;
    const bool loops = node.target == kWhileLoop;
    builder.set_source(node);
    Argument &operands = node.args.at(loops ? 2 : 3);
    Arguments list = *operands.list();
    const size_t position = list.size();
    list.push_back(loops ? state_of_its_own(builder, state) : Argument(graph::NodeRef{state}));
    operands = std::move(list);
    if (loops) {
      Value::List values = *node.value->list();
      values.push_back(contiguous_value(DType::i64, {Expr(2)}, device_));
      node.value = Value{std::move(values)};
    }
    for (size_t i = 0; i < names.size(); ++i) {
      Graph &subgraph = subgraphs.at(names[i]);
      const bool carries = loops && i == 1;
      Given given = with_state(std::move(subgraph), position,
                               [&](GraphBuilder &inside, Node &output, NodeId own) {
                                 if (!carries)
                                   return Argument();
                                 inside.set_source(Node());
                                 Argument next = state_of_its_own(inside, own);
                                 Arguments values = list_of(output);
                                 values.push_back(next);
                                 output.args[0] = std::move(values);
                                 return next;
                               });
      subgraph = std::move(given.graph);
      graph::InputSpec input;
      input.node = given.state;
      subgraph.inputs.insert(subgraph.inputs.begin() + static_cast<std::ptrdiff_t>(position),
                             input);
      if (carries)
        subgraph.outputs.push_back({graph::OutputKind::user, given.yielded, ""});
    }
  }
};

tensor::Device device_of_draws(const Graph &graph) {
  for (const Node &node : graph.nodes)
    if (is_seeded_draw(node))
      return node.value->tensor()->device;
  for (const auto &entry : graph.subgraphs)
    if (draws(entry.second))
      return device_of_draws(entry.second);
  return {};
}

} // namespace

graph::Graph seed_random(graph::Graph graph, const PassOptions &) {
  if (!draws(graph))
    return graph;
  const tensor::Device device = device_of_draws(graph);
  return Seeder(device).whole(std::move(graph));
}

} // namespace tsc::ops
