// Nodes that nobody takes.
#pragma once

#include "graph/graph.h"

namespace tsc::ops {

/// The nodes that an output needs; placeholders stay.
graph::Graph remove_dead_nodes(graph::Graph graph);

} // namespace tsc::ops
