// Sorting: what its decomposition and its lowering agree on.
#pragma once

#include <cstdint>

namespace tsc::ops {

/// Elements of the longest rows that a block sorts. A tsc.sort of rows that may be longer is of all
/// their places, along the last of two dimensions.
inline constexpr int64_t kLongestSortedByBlock = 8192;

} // namespace tsc::ops
