// Readers and writer of graphs. The format is recognized by content.
#pragma once

#include "graph/graph.h"

namespace tsc::graph {

/// Reads tsc's graph JSON (docs/graph-format.md), a torch.export model.json, or a .pt2 archive.
/// Errors: UserError (bad_input) TSC-G0nn with JSON pointer or archive member; every independent
/// problem of the file is in one report.
Graph read_graph(const std::string &path);
/// The same from memory; `label` stands for the path in messages.
Graph parse_graph(std::string_view bytes, const std::string &label);

/// Writes graph JSON. write, read, write gives the same bytes. Of the weights only the
/// constants that stand in the graph are written.
std::string to_json(const Graph &graph);

} // namespace tsc::graph
