// A row's maximum and the sum of its exponentials in one walk.
#pragma once

#include "codegen/kernel_graph.h"

namespace tsc::codegen {

/// Puts one online_softmax_reduce in the place of a maximum and the sums of exp(x - m), x being
/// what the maximum is of and m a value of the row that is computed from it: a row that does not
/// stay on the chip is read once for both. For graphs of single-pass statistics (GraphOptions).
///
/// The sum becomes sum * exp(max - m): the same up to rounding, and for infinities and NaN exactly
/// what the two walks give. With m = max, a row that holds +inf, or nothing but -inf, has the sum
/// NaN; with m = 0 where max is infinite, +inf and 0.
void join_softmax_statistics(KernelGraph &graph);

} // namespace tsc::codegen
