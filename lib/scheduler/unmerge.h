// Nodes as they were before their loops were merged.
#pragma once

#include "scheduler/dependency.h"

namespace tsc::scheduler {

/// Loops reordered as lowered, none merged, and the accesses over them (d0, d1, ...). Logs of
/// PyTorch 2.11 print nodes like this before fusion, and the sections of fused groups after it.
struct UnmergedNode {
  ir::LoopBody body; // loops only
  std::vector<Dependency> reads, writes;
};
UnmergedNode unmerge(const ir::Module &module, const Node &node);

/// find_accesses of `body`, which does what `node` does, with the buffer versions that the node's
/// reads name, and those of its reads that are not of elements.
Accesses find_named_accesses(const ir::Module &module, const Node &node, const ir::LoopBody &body);

} // namespace tsc::scheduler
