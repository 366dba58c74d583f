// Complex tensors that branches and loops take and yield.
#pragma once

#include "graph/graph.h"

namespace tsc::ops {

/// Every call of cond and while_loop takes and yields the parts of complex tensors, real tensors
/// with a last dimension of 2, and calls subgraphs of its own that make complex tensors of them.
/// Those are split in turn when the passes run over subgraphs (prepare_subgraphs).
graph::Graph with_real_borders(graph::Graph graph);

} // namespace tsc::ops
