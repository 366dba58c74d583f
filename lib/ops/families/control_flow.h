// Branches and loops: nodes that call subgraphs.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

/// (predicate, true graph, false graph, operands)
inline constexpr std::string_view kCond = "higher_order.cond";
/// (condition graph, body graph, carried, others)
inline constexpr std::string_view kWhileLoop = "higher_order.while_loop";

bool is_control_flow(const Node &node);

/// The subgraphs that a prepared node names: {true, false} or {condition, body}.
std::vector<std::string> subgraph_names(const Node &node);

/// `subgraph` checked, with the values of its nodes (passes/infer_shapes.cpp): what a branch yields
/// is known from what it computes.
graph::Graph with_values(graph::Graph subgraph);
/// `graph` checked, functional and decomposed, all of it: convolutions and attention, too. Its
/// inputs and outputs say what it takes and yields (passes/passes.cpp).
graph::Graph decomposed(graph::Graph graph);

} // namespace tsc::ops
