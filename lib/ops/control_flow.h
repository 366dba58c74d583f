// Branches and loops: nodes that call subgraphs.
#pragma once

#include "ops/operator.h"
#include "ops/passes.h"

namespace tsc::ops {

/// (predicate, true graph, false graph, operands)
inline constexpr std::string_view kCond = "higher_order.cond";
/// (condition graph, body graph, carried, others)
inline constexpr std::string_view kWhileLoop = "higher_order.while_loop";

bool is_control_flow(const Node &node);

/// The subgraphs that a prepared node names: {true, false} or {condition, body}.
std::vector<std::string> subgraph_names(const Node &node);

/// Runs the passes over the subgraphs of branches and loops, each call of a subgraph getting a
/// graph of its own whose placeholders are the operands that are tensors; nodes name their
/// subgraphs directly. Before: decomposed. Errors: TSC-O125 for what a subgraph may not do.
graph::Graph prepare_subgraphs(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
