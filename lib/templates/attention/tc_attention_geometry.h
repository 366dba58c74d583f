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
