// Sorting: what its decomposition and its lowering agree on.
#pragma once

#include "tensor/dtype.h"

#include <cstdint>

namespace tsc::ops {

/// Elements of the longest rows of any dtype that a block sorts.
inline constexpr int64_t kLongestSortedByBlock = 8192;

/// Of this dtype: elements of up to 16 bits fit a word with their places. A tsc.sort of rows that
/// may be longer is of all their places, along the last of two dimensions.
inline int64_t longest_sorted_by_block(tensor::DType dtype) {
  return tensor::size_in_bytes(dtype) <= 2 ? 2 * kLongestSortedByBlock : kLongestSortedByBlock;
}

} // namespace tsc::ops
