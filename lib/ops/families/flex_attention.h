// Attention whose scores go through functions of the caller's.
#pragma once

#include "graph/graph.h"

#include <string_view>
#include <vector>

namespace tsc::ops {

/// What functions of scores are computed of where one kernel computes the attention: number 0 is
/// the scores, 1 to 4 the batch, head, row and column that they stand at, each with sizes of 1 but
/// along its own dimension. None of them ever has memory.
inline constexpr std::string_view kScoreOperand = "tsc.score_operand.default";

/// One kernel computes the attention: queries, keys, values, what becomes of scores, of which all
/// are seen or those that a condition says, lists of blocks, their size, the scale.
inline constexpr std::string_view kFusedFlexAttention = "tsc.fused_flex_attention.default";
/// Whether that kernel takes queries [batch, heads, rows, depth] and so many keys.
bool fits_flex_kernel(const std::vector<symbolic::Expr> &query, symbolic::Expr keys);
/// Whether one kernel computes the attention, its functions at the scores.
bool is_fused_flex_attention(std::string_view target);

/// Calls of flex_attention that wait for what the target can do.
inline constexpr std::string_view kFlexAttention = "tsc.flex_attention.default";

/// Marks those whose sums nobody takes.
void mark_flex_attention(graph::Graph &graph);

} // namespace tsc::ops
