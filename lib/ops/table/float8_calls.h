// Which operators take floats of 8 bits: docs/numbers.md.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

/// Throws TSC-K001 if the call involves 8-bit floats and the row does more than move, cast or scale
/// them: they are stored, and PyTorch has no arithmetic on them. Every call is asked, those of
/// decompositions included.
void check_float8(const Call &call, const Operator &row);

} // namespace tsc::ops
