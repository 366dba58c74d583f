// Sums and products over dimensions of complex tensors.
#pragma once

#include "ops/passes/complex_values.h"

namespace tsc::ops {

/// mm, bmm, addmm and convolution as four real ones, prod and cumprod by halves; nothing for other
/// calls. Errors: TSC-O152 for prod and cumprod over a dimension whose size is a symbol.
std::optional<Pair> complex_product(const RealMath &math, ComplexValues &values, const Call &call);
/// The memory of the result of mm and bmm that are made as one real product: of many rows.
std::optional<Argument> complex_product_memory(const RealMath &math, ComplexValues &values,
                                               const Call &call);

} // namespace tsc::ops
