#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// Products of matrices so small that each fits a thread's registers become sums, which are fused
/// with what is around them: libraries give each matrix of a batch a tile of its own.
graph::Graph write_out_products(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
