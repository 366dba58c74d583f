// Where a graph comes from: a file, or standard input.
#pragma once

#include "graph/graph.h"

#include <string>

namespace tsc::driver {

/// graph::read_graph; of standard input if `path` is "-". That is read once and kept, since what is
/// refused is looked at again. Throws as need_graph.
graph::Graph read_graph_from(const std::string &path);

/// Throws refuse_compiled, with what takes it, if `path` was compiled before.
void need_graph(const std::string &path);

/// Throws UserError (usage) TSC-C034: a compiled folder or package keeps neither graph nor
/// schedule.
[[noreturn]] void refuse_compiled(const std::string &path, const std::string &next_step);

} // namespace tsc::driver
