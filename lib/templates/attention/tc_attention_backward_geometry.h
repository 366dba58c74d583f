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

// ---- where wgmma is: groups of four warps. One brings queries and what came to results, and adds
// what comes to queries to memory; the two others hold 64 keys and values each and compute.

constexpr int tc_backward_group_keys = 128; // of a block
constexpr int tc_backward_group_threads = 384;
constexpr int tc_backward_group_stages = 2;   // of queries and of what came to results
constexpr int tc_backward_group_piece = 4096; // sums of queries that a group of warps adds at once

/// Queries of a step: sums of deep keys and values leave registers for 64.
TC_CONSTEXPR int tc_backward_group_queries(int depth) { return depth <= 64 ? 128 : 64; }
/// Elements of a row of what comes to queries, while it is added up.
TC_CONSTEXPR int tc_backward_group_depth(int depth) {
  return tc_attention_blocks(depth) * tc_group_block;
}
/// Rows of a head, filled up so that every step is whole.
TC_CONSTEXPR long long tc_backward_group_rows(long long rows) { return (rows + 127) / 128 * 128; }
/// Dynamic shared memory of a block: keys and values; stages of queries and of what came to
/// results; what came to scores, twice; what comes to queries; saved numbers of the stages;
/// barriers. It starts at a multiple of 1024 bytes within.
TC_CONSTEXPR int tc_backward_group_bytes(int depth) {
  const int queries = tc_backward_group_queries(depth);
  return (2 * tc_backward_group_keys + 2 * tc_backward_group_stages * queries) * tc_group_line *
             tc_attention_blocks(depth) +
         2 * tc_backward_group_keys * queries * 2 + 2 * tc_backward_group_piece * 4 +
         tc_backward_group_stages * 2 * queries * 4 + tc_group_barriers + 1024;
}
