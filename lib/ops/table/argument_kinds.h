// Whether arguments are of the kinds that a schema names.
#pragma once

#include "ops/table/operator.h"
#include "support/diagnostic.h"

namespace tsc::ops {

/// TSC-O017 for every argument of `call` that cannot be what its parameter's type says: a text for
/// an int, a list for a Tensor, a None where the type has no '?'. What a node yields is left to the
/// shape rules; a number may stand for a Tensor, an int for a float and a bool, one int for int[].
std::vector<support::Diagnostic> check_argument_kinds(const Call &call);

} // namespace tsc::ops
