// A graph without the calls that the pipeline refused.
#pragma once

#include "graph/graph.h"

#include <set>
#include <string>

namespace tsc::driver {

/// Makes each call in `refused` (by name) a placeholder with the call's value. Calls that have no
/// value, or use a result that has none, become placeholders too, with the value that they
/// themselves have recorded; what is still without a value leaves the graph's outputs. Node ids
/// stay; what only these calls used becomes a result of the graph, so that it stays alive. Returns
/// how many of `refused` were calls.
size_t cut_nodes(graph::Graph &graph, const std::set<std::string> &refused);

} // namespace tsc::driver
