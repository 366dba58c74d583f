#include "graph/graph.h"

#include "support/diagnostic.h"

#include <unordered_map>

namespace tsc::graph {

bool operator==(const Argument &a, const Argument &b) { return a.value == b.value; }

symbolic::Ranges Graph::ranges() const {
  symbolic::Ranges ranges;
  for (const SymbolRange &range : symbols)
    ranges.set(range.symbol, {range.low, range.high});
  return ranges;
}

void for_each_node(const Argument &argument, const std::function<void(NodeRef)> &visit) {
  if (const NodeRef *reference = argument.node())
    visit(*reference);
  else if (const Argument::List *list = argument.list())
    for (const Argument &element : *list)
      for_each_node(element, visit);
}

std::vector<uint32_t> count_users(const Graph &graph) {
  std::vector<uint32_t> users(graph.nodes.size(), 0);
  // Who was the last to use each node: a node that uses another twice counts once.
  std::vector<size_t> last_user(graph.nodes.size(), SIZE_MAX);
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    auto visit = [&](NodeRef reference) {
      support::require(reference.id < users.size(), "count_users", "a reference leaves the graph");
      if (last_user[reference.id] != i)
        ++users[reference.id];
      last_user[reference.id] = i;
    };
    for (const Argument &argument : graph.nodes[i].args)
      for_each_node(argument, visit);
    for (const auto &keyword : graph.nodes[i].kwargs)
      for_each_node(keyword.second, visit);
  }
  return users;
}

} // namespace tsc::graph
