// What holds for a graph between any two passes.
#pragma once

#include "graph/graph.h"

#include <string_view>

namespace tsc::ops {

/// Throws InternalError, which names `pass` and the node, unless: the output node comes last, names
/// are unique, every node refers to earlier ones only, the signature names inputs and nodes, and
/// (`with_values`: after infer_shapes) every call has the value that its operator's rule gives, no
/// size or offset known to be negative. Subgraphs included, without values.
void verify_graph(const graph::Graph &graph, std::string_view pass, bool with_values);

} // namespace tsc::ops
