// What choices are made by where a size is known at run time only.
#pragma once

#include "graph/graph.h"

namespace tsc::ops {

/// `size`, or what it is for the values that the graph says are likely (graph::SymbolRange::hint),
/// eight where it says nothing, within the symbols' ranges: 1 to 2^20.
symbolic::Expr likely_size(symbolic::Expr size, const graph::Graph &graph);

/// Whether the graph says what every symbol of `size` is likely to be.
bool has_likely_size(symbolic::Expr size, const graph::Graph &graph);

} // namespace tsc::ops
