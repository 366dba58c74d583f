// What both readers demand of a signature. Internal to lib/graph.
#pragma once

#include "graph/graph.h"
#include "graph/problems.h"

#include <string>

namespace tsc::graph {

/// Adds TSC-G015 for an output that is not what the graph returns, and TSC-G026 for a mutation or
/// gradient of something that is no input. `outputs` is the JSON pointer of the list of outputs.
/// Precondition: the last node is the output node.
void check_signature(const Graph &graph, const std::string &outputs, Problems &problems);

} // namespace tsc::graph
