// What operators of whole families ask of their arguments, in one table: what PyTorch refuses at
// the call, and what rules, decompositions and lowerings rely on.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

/// Throws UserError (bad_input): TSC-O127 for a dtype, TSC-O128 for a rank, TSC-O129 for sizes that
/// the operator of `call` does not take. Passes over what is symbolic.
void check_requirements(const Call &call);

/// Throws TSC-O129 if `value`, the result of `call`, has sizes known to be negative, or not one
/// stride a size.
void check_result(const Call &call, const Value &value);

} // namespace tsc::ops
