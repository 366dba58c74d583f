// Graph -> operations. One file per operator family, registered by lowering key.
#pragma once

#include "graph/graph.h"
#include "ir/ir.h"
#include "target/policy.h"
#include "target/target.h"

namespace tsc::lowering {

struct LoweringOptions {
  const target::Policy *policy = &target::default_policy();
  const target::Target *target = nullptr; // num_splits needs the number of multiprocessors
  /// Of a subgraph: what it yields, each a computed buffer of its own with exactly this layout.
  const std::vector<graph::TensorMeta> *results = nullptr;
};

/// Precondition: `graph` went through ops::run_graph_passes (every node has a value, no composite
/// or mutating operators). Afterwards: buffers' layouts are frozen, operations are in registration
/// order, names are final (opN, bufN). Errors: UserError (unsupported) TSC-O0nn for a node whose
/// lowering is missing; all at once.
ir::Module lower(const graph::Graph &graph, const LoweringOptions &options);

} // namespace tsc::lowering
