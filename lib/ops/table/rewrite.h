// What passes share that rebuild a graph node by node: the map from old nodes to what replaces
// them.
#pragma once

#include "ops/table/builder.h"

#include <functional>

namespace tsc::ops {

/// `argument` with every reference (nested lists included) replaced.
Argument map_references(const Argument &argument,
                        const std::function<Argument(graph::NodeRef)> &replacement);

/// A graph being rebuilt from another. Nodes are visited in order; each old node is given what
/// stands for it.
class Rewrite {
public:
  explicit Rewrite(Graph source, std::unordered_set<std::string_view> composites = {});

  const Graph &source() const { return source_; }
  GraphBuilder &builder() { return builder_; }
  const GraphBuilder &builder() const { return builder_; }

  /// The old node with its arguments mapped and its origins filled in; its value is kept. The long
  /// texts move out of the source: call it once a node.
  Node take_mapped(graph::NodeId old);
  Argument mapped(const Argument &argument) const;
  void replace(graph::NodeId old, Argument with);
  /// What stands for an old node that was visited.
  const Argument &replacement(graph::NodeId old) const { return replacements_[old]; }
  /// What users take instead of the node, while inputs and outputs still name it.
  void replace_uses(graph::NodeId old, Argument with);
  /// Appends the old node as it is, its arguments mapped.
  void copy(graph::NodeId old);
  /// The Call that `mapped_node` makes in the new graph.
  Call call(const Node &mapped_node, const Operator &row) const;

  /// The new graph, with inputs and outputs mapped.
  Graph take();
  /// The new graph without inputs and outputs, for passes that make their own.
  Graph take_nodes() { return std::move(result_); }

private:
  Graph source_;
  Graph result_;
  std::shared_ptr<const symbolic::Ranges> ranges_;
  GraphBuilder builder_;
  std::vector<Argument> replacements_;
  std::unordered_map<graph::NodeId, graph::NodeId> inputs_; // placeholders whose uses were replaced
};

} // namespace tsc::ops
