// Nodes as they were before their loops were merged.
#pragma once

#include "scheduler/schedule.h"

namespace tsc::scheduler {

/// Loops reordered as lowered, none merged, and the accesses over them (d0, d1, ...). Logs of
/// PyTorch 2.11 print nodes like this before fusion, and the sections of fused groups after it.
struct UnmergedNode {
  ir::LoopBody body; // loops only
  std::vector<Dependency> reads, writes;
};
UnmergedNode unmerge(const ir::Module &module, const Node &node);

} // namespace tsc::scheduler
