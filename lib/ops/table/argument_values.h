// What single operators ask of the values of their arguments, as PyTorch does at the call: where
// the formula behind an operator would give numbers for what is none of its arguments.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

/// Throws UserError (bad_input): TSC-O127 for a dtype, TSC-O128 for a rank, TSC-O129 for sizes,
/// TSC-O156 for a number that the operator of `call` does not take. `name` is the operator's
/// without namespace, overload and a trailing "_". Passes over what is symbolic.
void check_argument_values(const Call &call, std::string_view name);

} // namespace tsc::ops
