// Attention whose scores go through functions of the caller's.
#pragma once

#include "graph/graph.h"

#include <string_view>

namespace tsc::ops {

/// What functions of scores are computed of where one kernel computes the attention: number 0 is
/// the scores, 1 to 4 the batch, head, row and column that they stand at, each with sizes of 1 but
/// along its own dimension. None of them ever has memory.
inline constexpr std::string_view kScoreOperand = "tsc.score_operand.default";

/// Whether one kernel computes the attention, its functions at the scores.
bool is_fused_flex_attention(std::string_view target);

/// Calls of flex_attention that wait for what the target can do.
inline constexpr std::string_view kFlexAttention = "tsc.flex_attention.default";

/// Marks those whose sums nobody takes.
void mark_flex_attention(graph::Graph &graph);

} // namespace tsc::ops
