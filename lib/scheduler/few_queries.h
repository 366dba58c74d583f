// Attention of few queries (tc_attention_few.h): which calls it takes, and what keys and values of
// theirs are computed as they are read.
#pragma once

#include "scheduler/schedule.h"
#include "target/target.h"

#include <optional>
#include <span>
#include <vector>

namespace tsc::scheduler {

/// Queries of all heads that share keys, rows of one block after the other.
Expr rows_that_share_keys(const ir::Extern &attention);

/// Whether there are so few queries that blocks hold those of all heads that share keys.
/// Precondition: operands of rank 4, of 16-bit floats, of a depth that is known.
bool is_of_few_queries(const target::Target &target, const ir::Extern &attention);

/// Where loops over `sizes`, which fill a buffer in order, are when the element of `view`, of that
/// buffer, at `place` is computed. Nothing where dimensions of one are not made of whole ones of
/// the other, or the view is of a part that does not begin with the buffer.
std::optional<std::vector<Expr>> loops_at(const tensor::Layout &view, std::span<const Expr> place,
                                          std::span<const Expr> sizes,
                                          const symbolic::Ranges &ranges);

} // namespace tsc::scheduler
