// The shape of a product's kernel, for the compiler that plans a launch and for the text that is
// launched. Sizes of shared memory are bytes, others elements unless they say so.
#pragma once

#ifndef TC_CONSTEXPR
#ifdef __CUDACC__ // NVRTC takes no function of the host alone
#define TC_CONSTEXPR constexpr __host__ __device__
#else
#define TC_CONSTEXPR constexpr
#endif
#endif

constexpr int tc_product_run = 8;             // results that are finished at once
constexpr int tc_product_word = 16;           // bytes of one access
constexpr int tc_product_threads = 256;       // of a block
constexpr int tc_product_float_threads = 128; // of a block where threads multiply
constexpr int tc_product_line = 128;          // bytes: a step's terms of one row or column
constexpr int tc_product_lines = 1024;        // bytes: eight lines start at multiples of it
constexpr int tc_product_group_rows = 64;     // that a group of four warps multiplies at once
constexpr int tc_product_block = 64 * tc_product_line; // bytes of 64 lines, the next 64 after them

/// Operands of `bytes` an element: elements of a word, and terms of a step.
TC_CONSTEXPR int tc_product_word_of(int bytes) { return tc_product_word / bytes; }
TC_CONSTEXPR int tc_product_terms_of(int bytes) { return tc_product_line / bytes; }

/// Of one step: the left operand's rows, then the right one's columns.
TC_CONSTEXPR int tc_product_stage_bytes(int rows, int columns) {
  return (rows + columns) * tc_product_line;
}
/// Floats from one row of staged results to the next.
TC_CONSTEXPR int tc_product_pitch(int columns) { return columns + 36; }
/// Dynamic shared memory of a block: the stages of both operands or, after them, the results.
TC_CONSTEXPR int tc_product_shared_bytes(int rows, int columns, int stages) {
  const int operands = stages * tc_product_stage_bytes(rows, columns);
  const int results = 4 * rows * tc_product_pitch(columns);
  return (operands > results ? operands : results) + tc_product_lines;
}

// ---- where groups of warps divide the work (sm_90a): one of four warps brings operands, two
// multiply

constexpr int tc_product_bringing = 128; // threads, before those that multiply
constexpr int tc_product_multiplying = 256;
constexpr int tc_product_all_threads = tc_product_bringing + tc_product_multiplying;
constexpr int tc_product_turn = 1;   // named barrier of the first group's turn, then the second's
constexpr int tc_product_piece = 64; // columns of 16 rows that a warp stages at once
/// Floats from one staged row to the next: rows that half a warp stores at once differ in banks.
constexpr int tc_product_piece_pitch = tc_product_piece + 8;
constexpr int tc_product_staged_bytes = 4 * 16 * tc_product_piece_pitch; // of a warp
constexpr int tc_product_barriers = 256; // bytes, more than there are

/// Where `splits` blocks share a tile's terms: bytes of the sums that one of them gets from others,
/// of half the tile; they lie where the stages were.
TC_CONSTEXPR int tc_product_joined_bytes(int rows, int columns, int splits) {
  return (splits - 1) * rows / 2 * columns * 4;
}
/// Dynamic shared memory of such a block: the ring of stages, results of each warp, barriers.
TC_CONSTEXPR int tc_product_group_bytes(int rows, int columns, int stages) {
  return stages * tc_product_stage_bytes(rows, columns) +
         tc_product_multiplying / 32 * tc_product_staged_bytes + tc_product_barriers +
         tc_product_lines;
}
