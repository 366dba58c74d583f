// Sums of what goes to one place, in a fixed order: what adds at run-time indices becomes a sort of
// the indices and a sum of rows for each place (templates/sums/tc_sums.h). No atomic additions: the
// same input gives the same bits.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// Positions of a piece that is summed up by itself: tc_sum_piece.
inline constexpr int64_t kSumPiece = 128;

/// Rows of `source` added where `indices` say, in a table of `rows` rows; those of `padding_idx`
/// nowhere, in `dtype` or the source's. decompose leaves it to order_sums.
inline constexpr std::string_view kSumAt = "tsc.sum_at.default";

/// Of what adds at run-time indices the operator that does so in a fixed order: "" for all others.
std::string_view in_fixed_order(const Node &node);
/// Of what adds 16-bit floats at run-time indices the operator that does so in float32, rounding
/// once, where that costs little beside what is added: "" for all others.
std::string_view in_float32(const Graph &graph, const Node &node);
/// Whether that is estimated to be faster than atomic additions into memory that is filled first.
/// Sizes that are symbols: false.
bool fixed_order_pays(const Graph &graph, const Node &node);

/// Whether a sum of rows (kSumAt) goes to so few places that a masked sum of all rows for each, in
/// one kernel that reads them once, is faster than both: tsc.sum_at_few_places. Its order is fixed.
bool few_places_pay(const Graph &graph, const Node &node);

} // namespace tsc::ops
