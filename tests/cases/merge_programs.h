// Joins independent programs into one, so that a family of cases compiles in a few translation
// units.
#pragma once

#include "program/program.h"

#include <vector>

namespace tsc::testing {

/// Steps, buffers, inputs and outputs one after the other; names get the program's number as
/// prefix, kernels that are equal are shared. Precondition: static sizes, no weights of
/// equal name that differ.
program::Program merge_programs(const std::vector<program::Program> &programs);

} // namespace tsc::testing
