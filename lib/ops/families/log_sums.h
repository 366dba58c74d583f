// Logarithms of sums of exponentials of complex numbers.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// log(exp(a) + exp(b)) of complex tensors that broadcast, from the one with the larger real part
/// (a, where they are equal). NaN in either part of one gives NaN; of two whose real parts are both
/// -inf it is b.
Argument complex_log_add_exp(GraphBuilder &builder, const Argument &a, const Argument &b);

/// The same over all elements of `self` up to each one, along the parameter `dim` of `call`.
/// Errors: TSC-O152 where the size of that dimension is a symbol.
Argument complex_log_cumulative_sum(GraphBuilder &builder, const Call &call);

} // namespace tsc::ops
