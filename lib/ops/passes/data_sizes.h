// Symbols of sizes, renamed.
#pragma once

#include "graph/graph.h"
#include "symbolic/expr.h"

namespace tsc::ops {

/// A number of `sort` behind all that the graph and its subgraphs have.
size_t next_symbol_number(graph::Graph &graph, symbolic::SymbolSort sort);

/// The graph and its subgraphs with other symbols; their ranges keep the names that they had.
graph::Graph with_symbols(graph::Graph graph, const symbolic::Substitution &replacements);

} // namespace tsc::ops
