#include "ops/inline_subgraphs.h"

#include "ops/rewrite.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

/// Their arguments: the mode, the subgraph, the subgraph's inputs.
constexpr std::string_view kWrappers[] = {"higher_order.wrap_with_set_grad_enabled",
                                          "higher_order.wrap_with_autocast", "higher_order.wrap",
                                          "higher_order.wrap_activation_checkpoint",
                                          "higher_order.tag_activation_checkpoint"};

bool is_wrapper(const Node &node) {
  return std::find(std::begin(kWrappers), std::end(kWrappers), node.target) != std::end(kWrappers);
}

/// The name of the subgraph that `argument` gives, directly or through a get_attr node.
const Graph *subgraph_of(const Graph &graph, const Argument &argument) {
  std::string name;
  if (const graph::GraphRef *reference = std::get_if<graph::GraphRef>(&argument.value))
    name = reference->name;
  else if (const NodeRef *node = argument.node();
           node && graph.node(node->id).kind == NodeKind::get_attr)
    name = graph.node(node->id).target;
  auto found = graph.subgraphs.find(name);
  return found == graph.subgraphs.end() ? nullptr : &found->second;
}

/// Copies the subgraph's nodes; the result is what it returns.
Argument splice(GraphBuilder &builder, const Graph &subgraph, const Node &call, Arguments inputs) {
  std::vector<Argument> replacements(subgraph.nodes.size());
  size_t next_input = 0;
  auto mapped = [&](const Argument &argument) {
    return map_references(argument, [&](NodeRef reference) { return replacements[reference.id]; });
  };
  for (NodeId id = 0; id < subgraph.nodes.size(); ++id) {
    Node node = subgraph.node(id);
    if (node.kind == NodeKind::placeholder) {
      support::require(next_input < inputs.size(), "inline_subgraphs", "too few inputs");
      replacements[id] = inputs[next_input++];
      continue;
    }
    for (Argument &argument : node.args)
      argument = mapped(argument);
    for (auto &keyword : node.kwargs)
      keyword.second = mapped(keyword.second);
    if (node.kind == NodeKind::output)
      return node.args.at(0);
    node.name = builder.fresh_name("." + node.name);
    if (node.origins.empty() || node.origins == std::vector<std::string>{subgraph.node(id).name})
      node.origins = {node.name};
    if (node.stack_trace.empty())
      node.stack_trace = call.stack_trace;
    replacements[id] = NodeRef{builder.append(std::move(node))};
  }
  throw support::InternalError("inline_subgraphs", call.name, "the subgraph has no output");
}

/// One level; what is inlined may hold further wrappers.
graph::Graph inline_once(graph::Graph graph) {
  Rewrite rewrite(std::move(graph));
  for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    const Node &old = rewrite.source().node(id);
    const Graph *subgraph = nullptr;
    Node node = rewrite.take_mapped(id);
    size_t at = 0;
    if (old.kind == NodeKind::call_function && is_wrapper(old)) {
      while (at < old.args.size() && !(subgraph = subgraph_of(rewrite.source(), old.args[at])))
        ++at;
    }
    if (subgraph) {
      Arguments inputs(node.args.begin() + static_cast<ptrdiff_t>(at) + 1, node.args.end());
      rewrite.replace(id, splice(rewrite.builder(), *subgraph, node, std::move(inputs)));
    } else if (old.target == "operator.getitem" && node.args.size() == 2 && node.args[0].list()) {
      rewrite.replace(
          id, node.args[0].list()->at(static_cast<size_t>(std::get<int64_t>(node.args[1].value))));
    } else {
      rewrite.replace(id, NodeRef{rewrite.builder().append(std::move(node))});
    }
  }
  return rewrite.take();
}

} // namespace

graph::Graph inline_subgraphs(graph::Graph graph, const PassOptions &) {
  constexpr int kDeepest = 100; // no model nests deeper
  for (int depth = 0; depth < kDeepest; ++depth) {
    if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_wrapper))
      return graph;
    // Subgraphs of subgraphs are looked up in the outer graph.
    std::map<std::string, Graph> nested;
    for (auto &entry : graph.subgraphs)
      for (auto &inner : entry.second.subgraphs)
        nested.emplace(inner.first, inner.second);
    std::map<std::string, Graph> all = graph.subgraphs;
    all.insert(nested.begin(), nested.end());
    graph.subgraphs = std::move(all);
    graph = inline_once(std::move(graph));
  }
  return graph;
}

} // namespace tsc::ops
