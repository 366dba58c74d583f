// Few long rows: one kernel reduces parts of each row on the whole GPU, a second one merges them.
#pragma once

#include "codegen/kernel_graph.h"
#include "target/target.h"

namespace tsc::codegen {

struct SplitGraphs {
  KernelGraph parts; // rows x parts -> the buffers of partial results
  KernelGraph merge; // those -> what the group stores for each row
};

/// Splits a group whose rows are too few for the GPU: plain reductions, all over the elements
/// themselves, without work on elements that needs a row's result. Appends the buffers of partial
/// results to `module`. Nothing otherwise: other groups run as one kernel.
/// Deterministic: which elements a part holds depends on sizes and target alone.
std::optional<SplitGraphs> split_rows(ir::Module &module, const scheduler::Group &group,
                                      const target::Target &target);

/// A cheap test that fails for most groups that split_rows leaves alone.
bool may_split_rows(const scheduler::Group &group, const target::Target &target);

} // namespace tsc::codegen
