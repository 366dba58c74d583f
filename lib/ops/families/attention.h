// Attention as one node.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

/// Marks the tsc.attention nodes that one kernel computes whole: they become
/// tsc.attention.output_only, or with_sums where somebody takes their logsumexp. `deepest`:
/// elements of a row that a kernel takes at most.
void choose_fused_attention(graph::Graph &graph, int64_t deepest);

/// Backward forms of attention (aten's names), which wait for what the target can do.
bool is_attention_backward(std::string_view target);
const std::vector<std::string_view> &attention_backward_forms();

} // namespace tsc::ops
