#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// Products of matrices so small that each fits a thread's registers become sums, which are fused
/// with what is around them: libraries give each matrix of a batch a tile of its own. So do
/// products with a vector (a column, or a row where no template takes it), and those of 2 to 4
/// columns, or rows of 32 bits and more, of a large factor that lies along the terms: a sum each,
/// which reads the other factor once.
graph::Graph write_out_products(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
