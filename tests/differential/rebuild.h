// Graphs put together anew out of the nodes of another.
#pragma once

#include "graph/graph.h"

#include <optional>
#include <vector>

namespace tsc::differential {

/// Calls `visit` for every node that node `id` refers to, arguments and keywords.
void for_each_argument(const graph::Graph &graph, graph::NodeId id,
                       const std::function<void(graph::NodeId)> &visit);

/// The graph with its nodes in `order` (each once; those left out must not be referred to), the
/// signature adapted. Precondition: what a node refers to stands before it.
graph::Graph in_order(const graph::Graph &graph, const std::vector<graph::NodeId> &order);

/// Inputs first, the output node last, else as it is.
graph::Graph inputs_first(const graph::Graph &graph);

/// Every reference replaced: `replacement[id]`, by id.
void replace_references(graph::Graph &graph, const std::vector<graph::NodeId> &replacement);

/// Makes the output node say what the signature says. Precondition: it is the last node.
void refresh_output_node(graph::Graph &graph);

/// Sizes as numbers; nothing if `value` is no tensor or one is symbolic.
std::optional<std::vector<int64_t>> static_sizes(const std::optional<graph::Value> &value);

} // namespace tsc::differential
