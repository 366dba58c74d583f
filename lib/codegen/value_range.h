// Between which numbers a value of a kernel lies, whatever is loaded.
#pragma once

#include "codegen/kernel_graph.h"

#include <optional>

namespace tsc::codegen {

/// Finite bounds, which the value may not reach.
struct ValueRange {
  double low, high;
};

/// Nothing where no finite bounds are known, or where the value may be NaN. Follows positions,
/// literals and arithmetic on them as far as minima, maxima and the conditions of what is taken
/// there
/// (`where(x >= 0 && x <= 9, x, 0)`) bound it; what is loaded has no bounds.
std::optional<ValueRange> value_range(const KernelGraph &graph, ValueId id);

/// An integer value that follows from positions by sums, differences, products with numbers, minima
/// and maxima, none of which can leave 32 bits, as an expression of the kernel's variables; nothing
/// for all others.
std::optional<Expr> value_index(const KernelGraph &graph, ValueId id);

} // namespace tsc::codegen
