// Operators whose results differ in dtype between PyTorch's devices or versions.
#pragma once

#include <string_view>

namespace tsc::ops {

/// Why the results of `target` have one dtype or another; empty where they do not. What a graph
/// records of them holds: results are converted to it.
std::string_view why_dtypes_vary(std::string_view target);

} // namespace tsc::ops
