// What depends on weights alone is computed when they are loaded, not in every run.
#pragma once

#include "lowering/context.h"

namespace tsc::lowering {

/// By node: its value depends on parameters, buffers and constants that the graph does not change,
/// and on nothing that a run gives.
std::vector<bool> find_weight_values(const graph::Graph &graph);

/// Realizes the current node's value if it depends on weights alone, some user's does not, and
/// computing it again for every element of that user would take functions (a square root, a
/// quotient). Its kernel then is a step that runs once.
void realize_ahead(Context &context, TensorValue &value);

} // namespace tsc::lowering
