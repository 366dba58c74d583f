// Higher-order operators that only set a mode around their subgraph vanish.
#pragma once

#include "ops/passes.h"

namespace tsc::ops {

/// wrap_with_set_grad_enabled, wrap_with_autocast (disabled or not: casts are recorded in the
/// subgraph) and the like are replaced by their subgraph's nodes. Runs first: what remains is
/// checked afterwards.
graph::Graph inline_subgraphs(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
