// Steps of what ranks do together, and of the copies and storages around it.
#pragma once

#include "ir/ir.h"
#include "program/program.h"

#include <functional>

namespace tsc::codegen {

/// The program's buffer that holds the memory of an IR buffer, noted as written or not.
using MemoryOf = std::function<uint32_t(ir::BufferId, bool written)>;

/// The steps that do what `operation`, a call between ranks, does: collectives, copies of
/// contiguous ranges, zeros. None for a wait (collectives are done when their step is) and for what
/// only frees memory (memory is planned by lifetimes). Precondition: all operands are contiguous.
std::vector<program::Step> communication_steps(const ir::Module &module,
                                               const ir::Operation &operation,
                                               const MemoryOf &memory);

} // namespace tsc::codegen
