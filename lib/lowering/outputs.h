// The graph's outputs: what must be in memory, and what is written back into inputs.
#pragma once

#include "lowering/context.h"

namespace tsc::lowering {

/// Fills module.outputs. First every output and every new value of a mutated input that another
/// mutation could disturb is realized, then the mutations are stored: nothing may read an input
/// after it was overwritten.
void lower_outputs(Context &context);

/// Of a subgraph: fills module.outputs with computed buffers, each of its own, laid out as
/// `results` say, whatever a result is (an operand, a view, the same value twice).
void lower_results(Context &context, const std::vector<graph::TensorMeta> &results);

/// Adds an output for each input whose storage was set: its new value. Runs after lower_outputs.
void lower_set_inputs(Context &context);

/// Throws UserError (unsupported) TSC-O122 if a group has more ranks in one collective than in
/// another.
void check_groups(const ir::Module &module);

} // namespace tsc::lowering
