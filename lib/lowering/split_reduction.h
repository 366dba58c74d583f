// Large reductions with few results as two operations (seed 004's multilayer reductions).
#pragma once

#include "lowering/reductions.h"

#include <optional>

namespace tsc::lowering {

/// Into how many parts each result's elements are divided: 1 leaves the reduction whole. Asked only
/// of policies that split in lowering; the numbers are TorchInductor's. Fixes the layouts of what
/// the reduction reads.
int64_t number_of_splits(Context &context, const ReductionSpec &spec);

/// Reduces `splits` parts of each result's elements on their own (in f32 for half types), all of
/// them realized, and those results once more.
std::vector<TensorValue> reduce_in_parts(Context &context, const ReductionSpec &spec,
                                         int64_t splits);

/// Which of the dimensions that are reduced make a row: those along which what was reduced to one
/// number a row, and is read here, does not change (a loss over all elements of a softmax). Nothing
/// if that is none of them, or all.
std::optional<std::vector<bool>> dimensions_of_rows(Context &context, const ReductionSpec &spec);

/// Reduces each row on its own (in f32 for half types), which is a loop over what rows were reduced
/// over before, so that one kernel has all of it; and then the rows' results.
std::vector<TensorValue> reduce_in_rows(Context &context, const ReductionSpec &spec,
                                        const std::vector<bool> &of_row);

} // namespace tsc::lowering
