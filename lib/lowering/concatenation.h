// Concatenation without a copy: who computes a part stores it into its slice of the result.
#pragma once

#include "lowering/context.h"
#include "ops/table/operator.h"

#include <optional>

namespace tsc::lowering {

/// `tensors` (of the result's dtype, two or more, none empty along `dimension`) one after the other
/// along `dimension`, in memory that they are slices of: parts that loops or products compute are
/// stored there at once, others are copied. Nothing where Policy::concatenation prefers one kernel
/// that reads every part under a mask.
std::optional<TensorValue> concatenate_in_place(Context &context, const ops::Call &call,
                                                std::vector<TensorValue> &tensors,
                                                size_t dimension);

} // namespace tsc::lowering
