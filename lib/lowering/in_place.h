// Updates of a mutated input that are stored into its own memory, part by part, instead of into a
// copy: a KV cache that takes one more row moves that row only.
//
// After functionalization a mutated input `p` is a chain of operators from `p` to the value that
// ends in it: p1 = index_put(p, ..), p2 = slice_scatter(p1, ..), written back to p. Where the chain
// holds nothing but such partial updates and views, each update is an ir::Scatter whose output is
// p's memory. Whatever was to read the old contents later (lazily or through a view) is computed
// before.
#pragma once

#include "lowering/context.h"
#include "ops/table/operator.h"

namespace tsc::lowering {

/// Finds the chains of the whole graph and fills context.in_place. Runs before the first node is
/// lowered.
void plan_in_place(Context &context);

/// Runs `scatter` (over the dimensions of `self`) in the memory of the mutated input where the
/// current node is planned to; the result is that memory afterwards, seen as `self` sees it.
/// Nothing if the current node is no such update, or `self` turned out not to be that memory.
std::optional<TensorValue> scatter_in_place(Context &context, const TensorValue &self,
                                            ir::Scatter scatter);

/// The current node's result if the region that it replaces was updated in place by `source`
/// already.
std::optional<TensorValue> updated_in_place(Context &context, const TensorValue &source);

/// True if computing `value` reads the memory of `buffer`.
bool reads(const Context &context, const TensorValue &value, BufferId buffer);

/// The same of an operand of a loop node.
bool reads(const Context &context, const Operand &operand, BufferId buffer);

/// The buffer that names the memory of input `buffer` after all updates so far.
BufferId present_buffer(const Context &context, BufferId buffer);

} // namespace tsc::lowering
