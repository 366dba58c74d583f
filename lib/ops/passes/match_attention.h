// Attention that a program writes out.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// softmax(scale * q @ transpose(k) + masks) @ v of 16-bit floats, whose scores and weights nobody
/// else reads, becomes aten.scaled_dot_product_attention, for which one kernel may do. Factors that
/// were widened to float32 (as PyTorch's own decomposition does) count, where the result is
/// narrowed again. Before: functional; after: decompose keeps or decomposes it. A row that a mask
/// of -inf hides throughout gives zeros then, as that operator does, and no NaN. Does nothing
/// unless options.fused_attention says that there are kernels.
graph::Graph match_attention(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
