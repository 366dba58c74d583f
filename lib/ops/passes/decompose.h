// Composite operators become simple ones. Every node that is emitted carries the origins, the stack
// trace and the module stack of the node that it helps to replace.
#pragma once

#include "ops/passes/passes.h"
#include "ops/table/builder.h"

#include <string_view>
#include <unordered_set>

namespace tsc::ops {

/// Before: every node has a value, nothing mutates. After: only operators with a lowering key
/// remain, besides `composites`; assertions and symbolic scalars are gone.
graph::Graph decompose_keeping(graph::Graph graph, std::unordered_set<std::string_view> composites,
                               const Facilities &facilities = {});

/// All but attention, which becomes tsc.attention nodes, and convolution: a library may take them.
graph::Graph decompose(graph::Graph graph, const PassOptions &options);
/// tsc.attention as tsc.fused_attention where `options` and its shapes allow, else as matrix
/// products and softmax.
graph::Graph decompose_attention(graph::Graph graph, const PassOptions &options);
/// aten.convolution as windows, matrix products and sums.
graph::Graph decompose_convolution(graph::Graph graph, const PassOptions &options);

/// What adds at run-time indices as sums in a fixed order where `options` ask for it, or where it
/// pays, else as atomic additions. Errors: TSC-O218.
graph::Graph order_sums(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
