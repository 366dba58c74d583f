// Complex numbers become pairs of real ones: docs/complex.md.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// Before: decomposed, but for attention and convolution; every node has a value. After: the only
/// complex tensors are inputs, read through aten.view_as_real alone, and outputs, made by
/// aten.view_as_complex; nothing else computes with complex numbers. Runs here because
/// decompositions are written once for both kinds of numbers, and what follows knows real ones
/// only. A graph without complex numbers is returned as it is. Errors: TSC-O150, all of them in one
/// report.
graph::Graph split_complex(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
