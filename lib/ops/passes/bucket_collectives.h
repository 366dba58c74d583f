// Small collectives of one group as one.
#pragma once

#include "ops/passes/decompose.h"

namespace tsc::ops {

/// All-reduces and reduce-scatters of one group, reduction and dtype become one where the last of
/// them stands, if nothing needs the others' results before; all-gathers of what no collective
/// yields become one where the first stands. Each bucket yields at most options.bucket_bytes. Not
/// in graphs that write to memory in place.
graph::Graph bucket_collectives(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
