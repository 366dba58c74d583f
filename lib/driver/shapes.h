// Sizes that the user chooses for the symbols of a graph.
#pragma once

#include "graph/graph.h"
#include "program/program.h"

#include <map>
#include <string>
#include <vector>

namespace tsc::driver {

/// By the symbol's name, as the export or else PyTorch calls it.
using Shapes = std::map<std::string, int64_t>;

/// "batch=8,seq=512". Throws UserError (usage) TSC-C026 for another form.
Shapes parse_shapes(const std::string &text);

/// Plans are made for these sizes; they serve all others. Throws UserError (usage) TSC-C027 for a
/// name that no size of the graph has and TSC-C028 for a size out of its range, which list those
/// that there are.
void hint_shapes(std::vector<graph::SymbolRange> &symbols, const Shapes &shapes);

/// All symbols of a program: those of `shapes` as given, others a small value of their range.
/// Errors: as above.
symbolic::Bindings bind_shapes(const std::vector<program::Symbol> &symbols, const Shapes &shapes);

} // namespace tsc::driver
