// The shape of the two kernels of attention's backward pass, for the compiler that plans a launch
// and for the text that is launched. `keys`: the kernel that finds what comes to keys and values,
// else the one that finds what comes to queries; `masked`: there is a mask besides causality.
#pragma once

#include "tc_attention_geometry.h"

constexpr int tc_backward_threads = 128;
constexpr int tc_backward_depth = 128; // at most

/// Of 16 rows each, of a warp: sums of deep keys and values, and masks, leave registers for one.
TC_CONSTEXPR int tc_backward_tiles(int depth, bool keys, bool masked) {
  return masked || (keys && tc_attention_wide(depth)) ? 1 : 2;
}
/// Of a block.
TC_CONSTEXPR int tc_backward_rows(int depth, bool keys, bool masked) {
  return tc_backward_threads / 32 * 16 * tc_backward_tiles(depth, keys, masked);
}
/// Rows of the other side that come at a time.
constexpr int tc_backward_step = 32;
/// Dynamic shared memory of a block: its own rows of two tensors, two steps of the two others, and
/// what was saved of its own queries, or of two steps'.
TC_CONSTEXPR int tc_backward_bytes(int depth, bool keys, bool masked) {
  const int own = tc_backward_rows(depth, keys, masked);
  return 2 * tc_attention_pitch(depth) * (2 * own + 4 * tc_backward_step) +
         (keys ? 4 * tc_backward_step : 2 * own) * static_cast<int>(sizeof(float));
}
