// Effect tokens: what orders calls with side effects in a functional export.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// with_effects(token, operator, arguments..) becomes the call of the operator, in its place: nodes
/// run in their order, so nothing needs a token. Token inputs and outputs vanish. Errors: TSC-O017
/// for a call that names no operator.
graph::Graph inline_effects(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
