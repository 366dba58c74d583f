// Scans of tuples: the function that combines them, and the operations that store their members.
#pragma once

#include "lowering/context.h"

namespace tsc::lowering {

/// By node: it is part of a combine function. Such a value never has memory: there is no element
/// of it before a scan combines two.
std::vector<bool> find_combine_values(const graph::Graph &graph);

} // namespace tsc::lowering
