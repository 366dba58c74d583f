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

// ---- where wgmma is: groups of four warps, one brings rows, the two others compute 64 rows each

/// What a kernel finds.
enum class tc_backward_form {
  gathered, // what comes to keys and values, and adds to memory what comes to queries
  keys,     // what comes to keys and values
  queries,  // what comes to queries: blocks hold queries and walk over keys
};
constexpr int tc_backward_group_own = 128; // rows of a block
constexpr int tc_backward_group_threads = 384;
constexpr int tc_backward_group_stages = 2;   // of rows of the other side
constexpr int tc_backward_group_piece = 4096; // floats that a group of warps adds to memory at once

/// Rows of the other side of a step: sums of deep keys and values leave registers for 64.
TC_CONSTEXPR int tc_backward_group_step(int depth, tc_backward_form form) {
  return depth <= 64 || form == tc_backward_form::queries ? 128 : 64;
}
/// Elements of a row of what comes to queries, while it is added up.
TC_CONSTEXPR int tc_backward_group_depth(int depth) {
  return tc_attention_blocks(depth) * tc_group_block;
}
/// Rows of a head, filled up so that every step is whole.
TC_CONSTEXPR long long tc_backward_group_rows(long long rows) { return (rows + 127) / 128 * 128; }
/// Dynamic shared memory of a block: its rows of two tensors, and stages of the two others; what
/// came to scores, twice, and what is added to memory; numbers of the stages' queries; barriers. It
/// starts at a multiple of 1024 bytes within.
TC_CONSTEXPR int tc_backward_group_bytes(int depth, tc_backward_form form) {
  const int step = tc_backward_group_step(depth, form), own = tc_backward_group_own,
            stages = tc_backward_group_stages;
  return (2 * own + 2 * stages * step) * tc_group_line * tc_attention_blocks(depth) +
         (form == tc_backward_form::gathered ? 2 * own * step * 2 + 2 * tc_backward_group_piece * 4
                                             : 0) +
         stages * 2 * step * 4 + tc_group_barriers + 1024;
}
