// Products and the collectives beside them in pieces, so that one computes while another travels:
// asynchronous tensor parallelism.
#pragma once

#include "ops/passes/decompose.h"

namespace tsc::ops {

/// Of each product whose rows one collective takes (all_reduce, reduce_scatter), or that reads what
/// an all_gather brings, options.overlap says in how many pieces of rows it runs; 1 leaves it.
///
///   mm(x, w) -> views, casts -> all_reduce or reduce_scatter -> wait
///   all_gather(x) -> wait -> views, casts -> mm(x, w), mm(x, v), ..
///
/// A piece of a scattered product has the same share of every rank's rows, and a piece of a
/// gathered one that of every rank's shard. Nothing else may read what is between; what else reads
/// a gathered tensor gets all of it, put together. Sizes are numbers. Results differ from the whole
/// product's by rounding at most. Not in graphs that write to memory in place.
graph::Graph overlap_products(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
