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
/// literals and arithmetic on them as far as minima and maxima bound it; what is loaded has no
/// bounds.
std::optional<ValueRange> value_range(const KernelGraph &graph, ValueId id);

} // namespace tsc::codegen
