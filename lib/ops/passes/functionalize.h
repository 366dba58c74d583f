// In-place operators become functional ones.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// Before: every node has a value. After: no operator mutates; what a write changes is visible to
/// later readers of the same memory through any view; mutated inputs, buffers and parameters are
/// outputs (mutations first). A graph without mutating operators is returned as it is. Runs before
/// decompose, whose rules know functional operators only.
graph::Graph functionalize(graph::Graph graph, const PassOptions &options);

/// What writing to an input of this kind makes an output.
graph::OutputKind mutation_of(graph::InputKind kind);

} // namespace tsc::ops
