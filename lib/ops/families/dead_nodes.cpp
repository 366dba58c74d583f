#include "ops/families/dead_nodes.h"

#include "graph/data_symbols.h"
#include "ops/families/assertions.h"
#include "ops/table/rewrite.h"

#include <algorithm>
#include <unordered_set>

namespace tsc::ops {

using graph::NodeKind;
using graph::NodeRef;

namespace {

/// Adds the symbols that an argument mentions.
void note_symbols(const Argument &argument, std::unordered_set<Expr, symbolic::ExprHash> &used) {
  if (const Expr *expr = std::get_if<Expr>(&argument.value)) {
    const std::vector<Expr> symbols = symbolic::free_symbols(*expr);
    used.insert(symbols.begin(), symbols.end());
  } else if (const Arguments *list = argument.list()) {
    for (const Argument &item : *list)
      note_symbols(item, used);
  }
}
void note_symbols(const Node &node, std::unordered_set<Expr, symbolic::ExprHash> &used) {
  for (const Argument &argument : node.args)
    note_symbols(argument, used);
  for (const auto &keyword : node.kwargs)
    note_symbols(keyword.second, used);
}

} // namespace

graph::Graph remove_dead_nodes(graph::Graph graph) {
  std::vector<bool> live(graph.nodes.size(), false);
  const bool has_definitions = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                           [](const Node &node) { return node.target == kDefine; });
  std::unordered_set<Expr, symbolic::ExprHash> used; // symbols of live nodes, if any is defined
  for (const graph::EqualSizes &sizes : graph.equal_sizes) {
    note_symbols(Argument(sizes.a), used);
    note_symbols(Argument(sizes.b), used);
  }
  const auto is_used = [&](Expr symbol) { // a branch may mention a size
    return used.count(symbol) != 0 || (!graph.subgraphs.empty() && !graph::is_data_symbol(symbol));
  };
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    const Node &node = graph.nodes[i];
    if (node.kind != NodeKind::call_function && node.kind != NodeKind::get_attr)
      live[i] = true;
    if (node.target == kAssert)
      live[i] = true;
    if (node.target == kDefine && is_used(std::get<Expr>(node.args.at(1).value)))
      live[i] = true;
    if (!live[i])
      continue;
    if (has_definitions)
      note_symbols(node, used);
    auto mark = [&](NodeRef reference) { live[reference.id] = true; };
    for (const Argument &argument : node.args)
      graph::for_each_node(argument, mark);
    for (const auto &keyword : node.kwargs)
      graph::for_each_node(keyword.second, mark);
  }
  if (std::find(live.begin(), live.end(), false) == live.end())
    return graph;
  Rewrite rewrite(std::move(graph));
  for (graph::NodeId id = 0; id < rewrite.source().nodes.size(); ++id)
    if (live[id])
      rewrite.copy(id);
  return rewrite.take();
}

} // namespace tsc::ops
