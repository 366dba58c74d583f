// Large reductions with few results as two operations (seed 004's multilayer reductions).
#pragma once

#include "lowering/reductions.h"

namespace tsc::lowering {

/// Into how many parts each result's elements are divided: 1 leaves the reduction whole. Asked only
/// of policies that split in lowering; the numbers are TorchInductor's. Fixes the layouts of what
/// the reduction reads.
int64_t number_of_splits(Context &context, const ReductionSpec &spec);

/// Reduces `splits` parts of each result's elements on their own (in f32 for half types), all of
/// them realized, and those results once more.
std::vector<TensorValue> reduce_in_parts(Context &context, const ReductionSpec &spec,
                                         int64_t splits);

} // namespace tsc::lowering
