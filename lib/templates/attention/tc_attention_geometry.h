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

/// Groups that compute, of a block. Where depths are small and no mask needs registers, three share
/// them, or four with steps of 64 keys. A block of three takes 1.27 of the time of two, of four
/// 1.77, under causality 1.70 (less of the diagonal is computed for nothing), so it is how many
/// rows nobody asked for, and how many rounds of blocks there are, that decides. (H200, 16384
/// tokens, 32 heads of 64, ms by two, three and four: 1024 keys 0.330, 0.318, 0.286; 4096 1.203,
/// 1.027, 1.048; 16384 4.84, 3.88, 4.20; causal 1024 0.229, 0.231, 0.190; 4096 0.708, 0.584,
/// 0.571; 16384 2.62, 1.99, 2.09.) `rows` of a head, `heads` of all batches; 0: not known. At most
/// `most`.
TC_CONSTEXPR int tc_attention_groups(int depth, bool masked, bool causal, long long rows,
                                     long long heads, int multiprocessors, int most = 4) {
  if (depth > 64 || masked)
    return 2;
  if (rows <= 0)
    return 3;
  int best = 2;
  long long least = 0;
  for (int groups = 2; groups <= most; ++groups) {
    const long long of_head = (rows + groups * tc_group_rows - 1) / (groups * tc_group_rows),
                    rounds = heads > 0 ? (heads * of_head + multiprocessors - 1) / multiprocessors
                                       : of_head,
                    time = rounds * (groups == 2   ? 100
                                     : groups == 3 ? 127
                                     : causal      ? 170
                                                   : 177);
    if (least == 0 || time < least) {
      least = time;
      best = groups;
    }
  }
  return best;
}
/// Of a step; multiples of 32, of 16 where there is no mask: as many as shared memory holds twice.
TC_CONSTEXPR int tc_attention_group_keys(int depth, int groups, bool masked) {
  return depth > 192 && !masked ? 80 : depth > 128 || groups == 4 ? 64 : groups == 3 ? 96 : 128;
}
/// Queries of shallow heads are read into registers once an item: shared memory then serves keys
/// and values alone, and the next item's come early. Four groups have none to spare.
TC_CONSTEXPR bool tc_attention_holds_query(int depth, int groups, bool masked) {
  return groups <= 3 && depth <= 64 && !masked;
}
/// Queries of the next item come while those of the last one are multiplied, and its first scores
/// are multiplied with the last one's last sums: where queries are held in registers, or shared
/// memory has room for two items'. Masks are asked before scores are.
TC_CONSTEXPR int tc_attention_query_slots(int depth, int groups, bool masked) {
  return masked || depth > 192 || tc_attention_holds_query(depth, groups, masked) ? 1 : 2;
}
TC_CONSTEXPR int tc_attention_stages(int depth, int groups) {
  return groups == 4 ? 6 : depth <= 64 ? 4 : 2;
}
TC_CONSTEXPR int tc_attention_blocks(int depth) {
  return (depth + tc_group_block - 1) / tc_group_block;
}
TC_CONSTEXPR int tc_attention_group_threads(int groups) { return (groups + 1) * tc_group_threads; }
/// Dynamic shared memory of a block: queries, stages of keys and of values, barriers; it starts at
/// a multiple of 1024 bytes within.
TC_CONSTEXPR int tc_attention_group_bytes(int depth, int groups, bool masked) {
  const int rows =
      tc_group_rows * groups * tc_attention_query_slots(depth, groups, masked) +
      2 * tc_attention_stages(depth, groups) * tc_attention_group_keys(depth, groups, masked);
  return rows * tc_group_line * tc_attention_blocks(depth) + tc_group_barriers + 1024;
}

// ---- few queries over many keys: blocks divide keys into parts, the warps of a block its steps

constexpr int tc_few_threads = 128; // of a group of warps
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
/// Keys, or values, of a step, as products read them.
TC_CONSTEXPR int tc_few_step_bytes(int depth) {
  return tc_few_keys * tc_attention_pitch(depth) * 2;
}
/// The same where bulk copies bring them, as boxes of 64 elements of depth; threads could, too.
TC_CONSTEXPR int tc_few_box_bytes(int depth) {
  return tc_attention_blocks(depth) * tc_few_keys * tc_group_line;
}
TC_CONSTEXPR int tc_few_boxed_bytes(int depth) {
  const int boxes = tc_few_box_bytes(depth), rows = tc_few_step_bytes(depth);
  return boxes > rows ? boxes : rows;
}
/// Of a group, beside its steps: they start at a multiple of 1024, barriers lie behind them.
constexpr int tc_few_boxed_once = 1024 + 128;
/// Groups of four warps that a multiprocessor has registers for. `wide`: several tiles of rows, of
/// which a warp has the scores of a step alone; `single`: a mask by single elements.
TC_CONSTEXPR int tc_few_most_groups(int depth, bool wide, bool masked, bool single) {
  if (depth > 64)
    return depth > 128 || wide || (masked && single) ? 2 : 3;
  return 4 - (wide ? 1 : 0) - (masked ? 1 : 0);
}
/// Of a block, each with steps of its own: so many that a multiprocessor has two, and four where
/// they compute keys or values, if there are registers. `blocks` of all, 0: not known; `steps` of a
/// part, 0: not known.
TC_CONSTEXPR int tc_few_groups(int most_groups, bool computes, long long blocks, long long steps,
                               int multiprocessors) {
  const int wanted = computes ? 4 : 2;
  const long long of_multiprocessor =
      blocks > multiprocessors ? (blocks + multiprocessors - 1) / multiprocessors : 1;
  const int most = wanted < most_groups ? wanted : most_groups;
  int groups =
      blocks == 0 || of_multiprocessor > most ? 1 : most / static_cast<int>(of_multiprocessor);
  while (groups > 1 && steps > 0 && groups > steps)
    --groups;
  return groups;
}
/// Steps of a group in shared memory at a time: two groups a multiprocessor where that leaves two
/// each, and no more than a group of a part of `keys` has (0: not known), so that short ones leave
/// room for more blocks. `step`: bytes that each takes, `once`: that all share.
TC_CONSTEXPR int tc_few_stages(int step, int once, int groups, int shared_limit, long long keys) {
  const int of_group = groups > 1 ? shared_limit / groups : shared_limit;
  const int most =
      once + 2 * step <= tc_few_half && tc_few_half < of_group ? tc_few_half : of_group;
  int stages = 4;
  while (stages > 2 &&
         (once + stages * step > most || (keys > 0 && (stages - 1) * tc_few_keys * groups >= keys)))
    --stages;
  return stages;
}
/// Dynamic shared memory of a block; what warps have found of its rows takes the place of steps.
TC_CONSTEXPR int tc_few_bytes(int depth, int step, int once, int stages, int groups) {
  const int found = 4 * 16 * (tc_attention_depth(depth) + 2) * static_cast<int>(sizeof(float));
  const int steps = once + stages * step;
  return groups * (steps > found ? steps : found);
}
/// What keys and values that are computed as they are read come from: runs of `run` elements, of
/// each of which `words` of 16 bytes wait in shared memory. Runs of a step and thread.
TC_CONSTEXPR int tc_few_runs(int depth, int run) {
  return (tc_few_keys * (depth / run) + tc_few_threads - 1) / tc_few_threads;
}
TC_CONSTEXPR int tc_few_words_bytes(int depth, int run, int words) {
  return tc_few_runs(depth, run) * words * tc_few_threads * 16;
}
/// Keys of a part, whole steps.
TC_CONSTEXPR long long tc_few_part(long long columns, long long parts) {
  const long long steps = (columns + tc_few_keys - 1) / tc_few_keys;
  return (steps + parts - 1) / parts * tc_few_keys;
}

// ---- floats: the threads of a block multiply

constexpr int tc_float_keys = 64;    // of a step
constexpr int tc_float_depth = 128;  // at most
constexpr int tc_float_queries = 16; // of a head: fewer are left to products

/// Of a block: 128 where a thread's registers hold 8 x 8 scores beside its sums, fewer where that
/// leaves multiprocessors without two blocks, or without one. `heads` of all batches, 0: not known.
TC_CONSTEXPR int tc_float_rows(int depth, long long heads, long long rows, int multiprocessors) {
  const bool many = heads == 0 || heads * ((rows + 127) / 128) >= 2ll * multiprocessors;
  return depth <= 64 && many                                           ? 128
         : heads == 0 || heads * ((rows + 63) / 64) >= multiprocessors ? 64
                                                                       : 32;
}
/// Threads that share a row, and rows of a thread.
TC_CONSTEXPR int tc_float_across(int rows) { return rows == 128 ? 8 : 16; }
TC_CONSTEXPR int tc_float_mine(int rows) { return rows == 32 ? 4 : 8; }
TC_CONSTEXPR int tc_float_threads(int rows) {
  return rows / tc_float_mine(rows) * tc_float_across(rows);
}
/// Elements that a row of values is added up as, a multiple of the threads that share it.
TC_CONSTEXPR int tc_float_padded(int depth, int rows) {
  const int across = tc_float_across(rows);
  return (depth + across - 1) / across * across;
}
/// Elements from one row in shared memory to the next: an odd number of 16-byte words, so that
/// eight rows lie in different banks; of weights, so that what the rows of a warp store does.
TC_CONSTEXPR int tc_float_pitch(int depth, int rows) {
  return (tc_float_padded(depth, rows) / 4 | 1) * 4;
}
TC_CONSTEXPR int tc_float_weights_pitch(int rows) { return tc_float_keys + tc_float_across(rows); }
/// Elements: keys of a step, whose place weights take when scores are there.
TC_CONSTEXPR int tc_float_key_elements(int depth, int rows) {
  const int keys = tc_float_keys * tc_float_pitch(depth, rows),
            weights = rows * tc_float_weights_pitch(rows);
  return keys > weights ? keys : weights;
}
/// Dynamic shared memory of a block: queries, keys, values.
TC_CONSTEXPR int tc_float_bytes(int depth, int rows) {
  return 4 * ((rows + tc_float_keys) * tc_float_pitch(depth, rows) +
              tc_float_key_elements(depth, rows));
}
/// Blocks of a multiprocessor that registers are shared out for: 168 a thread, or all.
TC_CONSTEXPR int tc_float_blocks(int depth, int rows, bool masked) {
  return rows == 128 || (rows > 32 && (depth > 64 || masked)) ? 2 : 3;
}
