// The user's line and node that a node came from, for diagnostics.
#pragma once

#include "graph/graph.h"

#include <string>

namespace tsc::ops {

/// The innermost frame of the node's stack trace that is not in PyTorch itself (else the
/// innermost): "File \"m.py\", line 3, in forward: x = x + 1", or "".
std::string source_line(const graph::Node &node);
/// The name of the user's node that `node` is or helps to replace.
const std::string &users_name(const graph::Node &node);

} // namespace tsc::ops
