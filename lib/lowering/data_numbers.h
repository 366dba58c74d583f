// Integers that the data decides (u0), as loops have them: loads of memory of rank 0.
#pragma once

#include "lowering/checks.h"

namespace tsc::lowering {

/// Before: every node is lowered. After: no index and no index expression of a loop mentions such
/// an integer. A value computes from the loaded number; an index becomes a run-time index, held
/// within its dimension, so that a number that breaks the graph's assertions reads no memory but
/// the tensor's.
void resolve_data_numbers(Context &context);

/// `number` over a domain of `sizes`, held to [0, extent), or to [-extent, extent) if negative ones
/// count from the end. `what` names it: "start".
Operand held_number(Context &context, Expr number, Expr extent, NegativeIndex negative,
                    std::span<const Expr> sizes, const std::string &what);

} // namespace tsc::lowering
