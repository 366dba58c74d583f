#include "driver/cut_nodes.h"

#include <algorithm>
#include <vector>

namespace tsc::driver {
namespace {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::NodeKind;

/// Values that a placeholder can carry through the passes: others cannot be told from nothing.
bool is_known(const Node &node) {
  return node.value &&
         (node.value->tensor() || std::holds_alternative<symbolic::Expr>(node.value->value));
}

void make_placeholder(Node &node) {
  node.kind = NodeKind::placeholder;
  node.target = node.name;
  node.args.clear();
  node.kwargs.clear();
}

bool uses_any(const Node &node, const std::vector<bool> &ids) {
  bool found = false;
  const auto visit = [&](graph::NodeRef used) { found = found || ids[used.id]; };
  for (const Argument &argument : node.args)
    graph::for_each_node(argument, visit);
  for (const auto &keyword : node.kwargs)
    graph::for_each_node(keyword.second, visit);
  return found;
}

/// The value of element `index` of what `node` yields, if it is a list.
std::optional<graph::Value> element(const Node &node, const Argument &index) {
  const graph::Value::List *list = node.value ? node.value->list() : nullptr;
  const int64_t *at = std::get_if<int64_t>(&index.value);
  if (!list || !at || *at < 0 || *at >= static_cast<int64_t>(list->size()))
    return std::nullopt;
  return (*list)[static_cast<size_t>(*at)];
}

/// References to unknown nodes become None.
Argument without(const Argument &argument, const std::vector<bool> &unknown) {
  if (const graph::NodeRef *reference = argument.node())
    return unknown[reference->id] ? Argument() : argument;
  const Argument::List *list = argument.list();
  if (!list)
    return argument;
  Argument::List result;
  for (const Argument &item : *list)
    result.push_back(without(item, unknown));
  return result;
}

void remove_from_outputs(Graph &graph, const std::vector<bool> &unknown) {
  for (Node &node : graph.nodes)
    if (node.kind == NodeKind::output)
      for (Argument &argument : node.args)
        argument = without(argument, unknown);
  std::erase_if(graph.outputs, [&](const graph::OutputSpec &output) {
    return output.kind != graph::OutputKind::user && output.value.node() &&
           unknown[output.value.node()->id];
  });
  for (graph::OutputSpec &output : graph.outputs)
    output.value = without(output.value, unknown);
}

/// What only refused calls used is still looked at: it becomes a result of the graph.
void keep_alive(Graph &graph, const std::vector<graph::NodeId> &used) {
  Argument::List *results = nullptr;
  for (Node &node : graph.nodes)
    if (node.kind == NodeKind::output && !node.args.empty())
      results = std::get_if<Argument::List>(&node.args[0].value);
  if (!results)
    return;
  for (const graph::NodeId id : used) {
    const Node &node = graph.node(id);
    const bool is_call = node.kind == NodeKind::call_function;
    if (!is_call || (node.value && !node.value->tensor()))
      continue;
    results->push_back(graph::NodeRef{id});
    graph.outputs.push_back({graph::OutputKind::user, graph::NodeRef{id}, ""});
  }
}

} // namespace

size_t cut_nodes(Graph &graph, const std::set<std::string> &refused) {
  size_t count = 0;
  std::vector<graph::NodeId> used; // by calls that were cut out
  std::vector<bool> unknown(graph.nodes.size(), false);
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    Node &node = graph.nodes[id];
    if (node.kind != NodeKind::call_function)
      continue;
    const bool is_refused = refused.count(node.name) != 0;
    if (!is_refused && !uses_any(node, unknown))
      continue;
    count += is_refused ? 1 : 0;
    if (!node.value && node.target == "operator.getitem" && node.args.size() == 2 &&
        node.args[0].node())
      node.value = element(graph.node(node.args[0].node()->id), node.args[1]);
    const auto note = [&](graph::NodeRef reference) { used.push_back(reference.id); };
    for (const Argument &argument : node.args)
      graph::for_each_node(argument, note);
    for (const auto &keyword : node.kwargs)
      graph::for_each_node(keyword.second, note);
    make_placeholder(node);
    unknown[id] = !is_known(node);
  }
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  keep_alive(graph, used);
  remove_from_outputs(graph, unknown);
  return count;
}

} // namespace tsc::driver
