// Removes what computes nothing new.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// Before: decomposed. After: no view, copy or cast that changes nothing, no arithmetic with a
/// neutral number, no two equal calls, no node without a user. Results are bit-identical. Random,
/// effectful and empty nodes are never merged. Nothing happens for "post_grad" graphs or without
/// options.cleanup.
graph::Graph clean_up(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
