#include "rebuild.h"

#include "ops/table/rewrite.h"

namespace tsc::differential {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::NodeRef;

void for_each_argument(const Graph &graph, NodeId id, const std::function<void(NodeId)> &visit) {
  const auto each = [&](NodeRef reference) { visit(reference.id); };
  for (const Argument &argument : graph.nodes[id].args)
    graph::for_each_node(argument, each);
  for (const auto &[name, argument] : graph.nodes[id].kwargs)
    graph::for_each_node(argument, each);
}

void replace_references(Graph &graph, const std::vector<NodeId> &replacement) {
  const auto replace = [&](NodeRef reference) {
    return Argument(NodeRef{replacement[reference.id]});
  };
  for (Node &node : graph.nodes) {
    for (Argument &argument : node.args)
      argument = ops::map_references(argument, replace);
    for (auto &[name, argument] : node.kwargs)
      argument = ops::map_references(argument, replace);
  }
  for (graph::OutputSpec &output : graph.outputs)
    output.value = ops::map_references(output.value, replace);
}

Graph in_order(const Graph &graph, const std::vector<NodeId> &order) {
  Graph result = graph;
  std::vector<NodeId> places(graph.nodes.size(), 0);
  for (size_t i = 0; i < order.size(); ++i) {
    places[order[i]] = static_cast<NodeId>(i);
    result.nodes[i] = graph.nodes[order[i]];
  }
  result.nodes.resize(order.size());
  replace_references(result, places);
  for (graph::InputSpec &input : result.inputs)
    input.node = places[input.node];
  return result;
}

Graph inputs_first(const Graph &graph) {
  std::vector<NodeId> order, rest, last;
  for (const graph::InputSpec &input : graph.inputs)
    order.push_back(input.node);
  for (NodeId id = 0; id < graph.nodes.size(); ++id)
    if (graph.nodes[id].kind == graph::NodeKind::output)
      last.push_back(id);
    else if (graph.nodes[id].kind != graph::NodeKind::placeholder)
      rest.push_back(id);
  order.insert(order.end(), rest.begin(), rest.end());
  order.insert(order.end(), last.begin(), last.end());
  return in_order(graph, order);
}

void refresh_output_node(Graph &graph) {
  Argument::List returned;
  for (const graph::OutputSpec &output : graph.outputs)
    returned.push_back(output.value);
  graph.nodes.back().args = {Argument(std::move(returned))};
}

std::optional<std::vector<int64_t>> static_sizes(const std::optional<graph::Value> &value) {
  const graph::TensorMeta *meta = value ? value->tensor() : nullptr;
  if (!meta)
    return std::nullopt;
  std::vector<int64_t> sizes;
  for (const symbolic::Expr size : meta->layout.sizes) {
    if (!size.is_integer())
      return std::nullopt;
    sizes.push_back(size.value());
  }
  return sizes;
}

} // namespace tsc::differential
