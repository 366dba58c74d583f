// Where a graph comes from: a file, or standard input.
#pragma once

#include "graph/graph.h"

#include <string>

namespace tsc::driver {

/// graph::read_graph; of standard input if `path` is "-". That is read once and kept, since what is
/// refused is looked at again.
graph::Graph read_graph_from(const std::string &path);

} // namespace tsc::driver
