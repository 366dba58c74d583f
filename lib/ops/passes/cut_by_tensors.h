// Cuts whose places a tensor holds.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// aten.tensor_split.tensor_indices_or_sections(x, places) becomes items of `places` and
/// aten.tensor_split.indices(x, items): parts stay views of x, whose sizes the data decides. A
/// number of parts, of rank 0, is asserted to be that which the export found. In subgraphs, too.
/// Runs before operators are checked; a call that the file says too little of is left to the check.
graph::Graph cut_by_tensors(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
