// The first part of a graph, as a graph.
#pragma once

#include "graph/graph.h"

#include <vector>

namespace tsc::driver {

/// Calls that yield a tensor, in order: where a graph can be cut.
std::vector<graph::NodeId> cut_points(const graph::Graph &graph);

struct CutGraph {
  graph::Graph graph;
  std::vector<std::string> nodes; // whose value each output is
};
/// The nodes up to `last`, one of cut_points. Its outputs are the tensors that the rest of the
/// graph takes over, `last` itself among them; mutations up to there stay.
CutGraph graph_up_to(const graph::Graph &graph, graph::NodeId last);

} // namespace tsc::driver
