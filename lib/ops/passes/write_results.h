// Calls that are given the tensors to write to.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// aten.add.out(x, y, out=t) becomes aten.add.Tensor(x, y) and a write of its result to t, in
/// subgraphs too; an empty t, which ATen gives the result's sizes, is the result from there on.
/// Runs before operators are checked: afterwards no call takes a tensor for its result. Calls of
/// which no row is the functional form are left to the check. Errors: TSC-O070 for an input that
/// gets other sizes; a result that does not fit is found when shapes are inferred (TSC-O070).
graph::Graph write_results(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
