// Attention as one node.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

/// Marks the tsc.attention nodes that one kernel computes whole and whose logsumexp nobody takes:
/// they become tsc.attention.output_only. `deepest`: elements of a row that a kernel takes at most.
void choose_fused_attention(graph::Graph &graph, int64_t deepest);

} // namespace tsc::ops
