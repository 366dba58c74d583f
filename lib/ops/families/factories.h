// What operators share that make tensors from nothing.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// "PARAMETERS, *, dtype, layout, device, pin_memory[, memory_format]) -> Tensor": the schema of a
/// factory, given "NAME(PARAMETERS".
std::string_view factory(std::string_view parameters, bool with_format = false);

/// What `make` yields for sizes, with the strides that `self` (or what call's memory_format says)
/// asks of its copy: made in memory order, then permuted.
Argument made_like(GraphBuilder &builder, const Call &call,
                   const std::function<Argument(const std::vector<Expr> &sizes)> &make);
/// What `make` yields for `sizes` in the order of `strides`, outermost first, permuted to `sizes`.
Argument made_in_order(GraphBuilder &builder, const std::vector<Expr> &sizes,
                       const std::vector<Expr> &strides,
                       const std::function<Argument(const std::vector<Expr> &sizes)> &make);

} // namespace tsc::ops
