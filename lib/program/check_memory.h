// What steps find in memory when they run in their order.
#pragma once

#include "program/program.h"
#include "support/diagnostic.h"

#include <vector>

namespace tsc::program {

/// TSC-P013 for every step that reads a buffer before the step that writes it, or after another
/// buffer took over its memory, for every output that is not what its memory holds in the end, and
/// for operands that begin beyond their buffer. Linear in the steps. Precondition: indices lie in
/// their tables, alias chains end, and steps that depend on others lie within them (validate).
std::vector<support::Diagnostic> check_memory(const Program &program);

} // namespace tsc::program
