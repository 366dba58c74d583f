// Higher-order operators that only set a mode around their subgraph vanish.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// wrap_with_set_grad_enabled, wrap_with_autocast, checkpoint and the like are replaced by their
/// subgraph's nodes, in graphs that stay subgraphs (of cond, say) as well. The casts of autocast,
/// of which an export in its default form records only the results' dtypes, become nodes. Runs
/// first: what remains is checked afterwards. Errors: TSC-O010 (a wrapper with another number of
/// inputs than its subgraph), TSC-O046.
graph::Graph inline_subgraphs(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
