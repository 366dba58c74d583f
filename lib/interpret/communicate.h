// Calls between ranks: one machine a rank, executed together.
#pragma once

#include "interpret/machine.h"

#include <deque>

namespace tsc::interpret {

/// True for what `communicate` executes.
bool is_communication(const ir::Operation &operation);
/// Does on all ranks what `operation` does. Precondition: the operands' views are contiguous.
/// Errors: UserError (bad_input) TSC-R126 if the group of a collective has more or fewer ranks than
/// the graph says, TSC-R052 if a part does not fit the room for it.
void communicate(const ir::Module &module, const ir::Operation &operation,
                 std::deque<Machine> &machines, const Links &links);

} // namespace tsc::interpret
