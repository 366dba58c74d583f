#include "driver/cut_graph.h"

#include <algorithm>

namespace tsc::driver {
namespace {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;

template <class Visit> void for_each_used(const Node &node, const Visit &visit) {
  const auto of_node = [&](graph::NodeRef reference) { visit(reference.id); };
  for (const Argument &argument : node.args)
    graph::for_each_node(argument, of_node);
  for (const auto &keyword : node.kwargs)
    graph::for_each_node(keyword.second, of_node);
}

/// Calls without a recorded value are taken for tensors unless elements of them are.
std::vector<bool> yields_tensor(const Graph &graph) {
  std::vector<bool> result(graph.nodes.size(), false);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node &node = graph.nodes[id];
    result[id] =
        node.kind == NodeKind::call_function && (!node.value || node.value->tensor() != nullptr);
  }
  for (const Node &node : graph.nodes)
    if (node.target == "operator.getitem")
      for_each_used(node, [&](NodeId used) { result[used] = false; });
  return result;
}

} // namespace

std::vector<NodeId> cut_points(const Graph &graph) {
  const std::vector<bool> is_tensor = yields_tensor(graph);
  const std::vector<uint32_t> users = graph::count_users(graph);
  std::vector<NodeId> points;
  for (NodeId id = 0; id < graph.nodes.size(); ++id)
    if (is_tensor[id] && users[id] > 0)
      points.push_back(id);
  return points;
}

CutGraph graph_up_to(const Graph &graph, NodeId last) {
  const std::vector<bool> is_tensor = yields_tensor(graph);
  std::vector<bool> is_live(last + size_t{1}, false);
  is_live[last] = true;
  for (NodeId id = last + 1; id < graph.nodes.size(); ++id)
    for_each_used(graph.nodes[id], [&](NodeId used) {
      if (used <= last && is_tensor[used])
        is_live[used] = true;
    });
  CutGraph cut;
  cut.graph = graph;
  cut.graph.nodes.resize(last + size_t{1});
  cut.graph.outputs.clear();
  cut.graph.structure.reset(); // it is that of the outputs that were
  Argument::List results;
  for (const graph::OutputSpec &output : graph.outputs)
    if (output.kind != graph::OutputKind::user && output.value.node() &&
        output.value.node()->id <= last) {
      cut.graph.outputs.push_back(output);
      results.push_back(output.value);
      cut.nodes.push_back(graph.node(output.value.node()->id).name);
    }
  for (NodeId id = 0; id <= last; ++id)
    if (is_live[id]) {
      cut.graph.outputs.push_back({graph::OutputKind::user, graph::NodeRef{id}, ""});
      results.emplace_back(graph::NodeRef{id});
      cut.nodes.push_back(graph.node(id).name);
    }
  Node output = graph.nodes.back();
  output.args = {Argument(std::move(results))};
  cut.graph.nodes.push_back(std::move(output));
  return cut;
}

} // namespace tsc::driver
