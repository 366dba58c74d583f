// Products whose factors do not lie in whole vectors.
#pragma once

#include "ops/passes/decompose.h"

namespace tsc::ops {

/// Factors of 16-bit products filled up with zeros to multiples of 8 elements where rows do not
/// start at whole vectors and options.pays_to_align says so; results are cut. After all that makes
/// products.
graph::Graph align_products(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
