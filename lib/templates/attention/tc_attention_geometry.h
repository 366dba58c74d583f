// The shape of an attention kernel, for the compiler that plans a launch and for the text that is
// launched: it follows from the depth of heads and from the mask. `costly`: the mask takes
// registers.
#pragma once

#ifndef TC_CONSTEXPR
#ifdef __CUDACC__ // NVRTC takes no function of the host alone
#define TC_CONSTEXPR constexpr __host__ __device__
#else
#define TC_CONSTEXPR constexpr
#endif
#endif

constexpr int tc_attention_rows = 128; // of a block

/// In whole matrices of the tensor cores.
TC_CONSTEXPR int tc_attention_depth(int depth) { return (depth + 15) / 16 * 16; }
/// Sums of a warp fill the registers: queries stay in shared memory.
TC_CONSTEXPR bool tc_attention_wide(int depth) { return tc_attention_depth(depth) > 64; }
/// Of a step.
TC_CONSTEXPR int tc_attention_keys(int depth) { return tc_attention_wide(depth) ? 32 : 64; }
TC_CONSTEXPR int tc_attention_rows_a_warp(bool costly) { return costly ? 16 : 32; }
TC_CONSTEXPR int tc_attention_threads(bool costly) {
  return tc_attention_rows / tc_attention_rows_a_warp(costly) * 32;
}
/// Elements from one row in shared memory to the next: an odd number of 16-byte words, so that
/// eight of them lie in different banks.
TC_CONSTEXPR int tc_attention_pitch(int depth) { return (tc_attention_depth(depth) / 8 | 1) * 8; }
/// Elements of shared memory: the queries, and keys and values of two steps. Queries that move to
/// registers leave their place to the steps.
TC_CONSTEXPR int tc_attention_shared(int depth) {
  const int queries = tc_attention_rows * tc_attention_pitch(depth);
  const int steps = 4 * tc_attention_keys(depth) * tc_attention_pitch(depth);
  return tc_attention_wide(depth) ? queries + steps : steps > queries ? steps : queries;
}
/// Dynamic shared memory of a block.
TC_CONSTEXPR int tc_attention_shared_bytes(int depth) { return 2 * tc_attention_shared(depth); }

// ---- where wgmma is: groups of four warps, one brings keys and values, the others compute

constexpr int tc_group_rows = 64;      // that a group computes
constexpr int tc_group_threads = 128;  // of a group
constexpr int tc_group_block = 64;     // elements of depth that lie in one line of shared memory
constexpr int tc_group_line = 128;     // bytes
constexpr int tc_group_barriers = 256; // bytes of barriers, more than there are
constexpr int tc_group_depth = 256;    // at most

/// Groups that compute, of a block: three share the registers where depths are small, unless a mask
/// needs registers, too. They are a tenth faster (4096 rows of 64: 482 TFLOP/s and 436 on an H200),
/// unless they compute more rows that nobody asked for. `rows` of a head, 0: not known.
TC_CONSTEXPR int tc_attention_groups(int depth, bool masked, long long rows) {
  if (depth > 64 || masked)
    return 2;
  const long long two = 2 * tc_group_rows, three = 3 * tc_group_rows;
  const long long by_two = (rows + two - 1) / two * two,
                  by_three = (rows + three - 1) / three * three;
  return by_three * 100 > by_two * 108 ? 2 : 3;
}
/// Of a step; multiples of 32.
TC_CONSTEXPR int tc_attention_group_keys(int depth, int groups) {
  return depth > 128 ? 64 : groups == 3 ? 96 : 128;
}
TC_CONSTEXPR int tc_attention_stages(int depth) { return depth <= 64 ? 4 : 2; }
TC_CONSTEXPR int tc_attention_blocks(int depth) {
  return (depth + tc_group_block - 1) / tc_group_block;
}
TC_CONSTEXPR int tc_attention_group_threads(int groups) { return (groups + 1) * tc_group_threads; }
/// Dynamic shared memory of a block: queries, stages of keys and of values, barriers; it starts at
/// a multiple of 1024 bytes within.
TC_CONSTEXPR int tc_attention_group_bytes(int depth, int groups) {
  const int rows = tc_group_rows * groups +
                   2 * tc_attention_stages(depth) * tc_attention_group_keys(depth, groups);
  return rows * tc_group_line * tc_attention_blocks(depth) + tc_group_barriers + 1024;
}

// ---- few queries over many keys: blocks divide keys into parts, the warps of a block its steps

constexpr int tc_few_threads = 128;
constexpr int tc_few_keys = 64;     // of a step
constexpr int tc_few_products = 16; // queries of a head for which a block's rows suffice anyway
constexpr int tc_few_queries = 64;  // of a head, more are never few
constexpr int tc_few_depth = 256;   // at most
constexpr int tc_few_parts = 64;    // at most
constexpr int tc_few_half = 115712; // bytes of a block, of which a multiprocessor holds two

/// What the plan is made from; sizes that are not known are guessed.
struct tc_few_work {
  long long batches, heads, key_heads, queries, keys;
  int depth;
};
/// Of 16 rows each, of a block that has `rows`: 1, 2 or 4, so that four warps share keys evenly.
/// Sums of deep values leave registers for the scores of 32 keys a warp.
TC_CONSTEXPR int tc_few_tiles(int depth, long long rows) {
  return rows <= 16 ? 1 : rows <= 32 || depth > 128 ? 2 : 4;
}
/// Keys and values of a step.
TC_CONSTEXPR int tc_few_step_bytes(int depth) {
  return 2 * tc_few_keys * tc_attention_pitch(depth) * 2;
}
/// Steps in shared memory at a time: two blocks a multiprocessor where that leaves two each, and no
/// more than a part of `keys` has (0: not known), so that short ones leave room for more blocks.
TC_CONSTEXPR int tc_few_stages(int depth, int shared_limit, long long keys) {
  const int step = tc_few_step_bytes(depth);
  const int most =
      2 * step <= tc_few_half && tc_few_half < shared_limit ? tc_few_half : shared_limit;
  int stages = 4;
  while (stages > 2 && (stages * step > most || (keys > 0 && (stages - 1) * tc_few_keys >= keys)))
    --stages;
  return stages;
}
/// Dynamic shared memory of a block; what warps have found of its rows takes the place of steps.
TC_CONSTEXPR int tc_few_bytes(int depth, int stages) {
  const int found = 4 * 16 * (tc_attention_depth(depth) + 2) * static_cast<int>(sizeof(float));
  const int steps = stages * tc_few_step_bytes(depth);
  return steps > found ? steps : found;
}
/// Keys of a part, whole steps.
TC_CONSTEXPR long long tc_few_part(long long columns, long long parts) {
  const long long steps = (columns + tc_few_keys - 1) / tc_few_keys;
  return (steps + parts - 1) / parts * tc_few_keys;
}
