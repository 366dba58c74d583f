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
constexpr int tc_product_short_run = 4;       // of a column, where 8 do not lie beside each other
constexpr int tc_product_word = 16;           // bytes of one access
constexpr int tc_product_threads = 256;       // of a block
constexpr int tc_product_float_threads = 128; // of a block where threads multiply
constexpr int tc_product_line = 128;          // bytes: a step's terms of one row or column
constexpr int tc_product_lines = 1024;        // bytes: eight lines start at multiples of it
constexpr int tc_product_group_rows = 64;     // that a group of four warps multiplies at once
constexpr int tc_product_block = 64 * tc_product_line; // bytes of 64 lines, the next 64 after them

constexpr int tc_product_ahead_bytes = 32; // that a run of results may load before they are there
constexpr int tc_product_early_bytes = 64; // that a piece's may, while the piece ahead is finished

/// Operands of `bytes` an element: elements of a word, and terms of a step.
TC_CONSTEXPR int tc_product_word_of(int bytes) { return tc_product_word / bytes; }
TC_CONSTEXPR int tc_product_terms_of(int bytes) { return tc_product_line / bytes; }

/// How many products of a batch share a line of 16-bit terms and a tile, where each has `terms` of
/// a line and as many `columns`: what wgmma, or of 8 terms mma.sync, takes at once. 1: none do.
TC_CONSTEXPR int tc_product_together(long long terms, long long columns) {
  const bool is_width =
      columns > 0 && columns % 8 == 0 &&
      (columns <= 32 || columns == 48 || columns == 64 || columns == 96 || columns == 128);
  const int together = terms == 8 && columns <= 32 ? 8 : terms == 16 ? 4 : terms == 32 ? 2 : 1;
  return is_width && together * columns <= 256 ? together : 1;
}

/// Windows of so many channels of `bytes` an element, in steps of whole lines: the parts of a line
/// that copies bring apart, each of one tap's channels; `held`: bytes of what windows slide over.
/// 1: of whole lines, of other channels, or where threads that load from a cache bring more. (H200,
/// 128 rows a step: a copy brings a position in 4 clocks, whatever it brings of it, threads one in
/// 12, in 28 from memory. Halves 0.54 to 1.09 of the time by threads, quarters of what the L2 cache
/// holds 1.05 to 1.3, of more 0.54 to 1.05.)
TC_CONSTEXPR int tc_parts_of_line(int bytes, long long channels, long long held) {
  const bool is_large = held >= 16ll << 20;
  return bytes != 2 || channels % 16 != 0 || channels % 64 == 0 ? 1
         : channels % 32 == 0                                   ? 2
         : is_large                                             ? 4
                                                                : 1;
}

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

// ---- few rows (tc_product_few.h): the warps of a block have tiles of 16 columns, or share the
// terms

constexpr int tc_few_rows_warps = 8; // of a block
constexpr int tc_few_rows_threads = tc_few_rows_warps * 32;
constexpr int tc_few_rows_depth = 4; // steps whose weights are there or on their way
/// Bytes of the left operand that come at once: all of a block's, or two parts in turns.
constexpr int tc_few_rows_barriers = 16; // bytes: one for each stage
constexpr int tc_few_rows_all = 32768, tc_few_rows_part = 12288;

TC_CONSTEXPR int tc_few_rows_of(int row_tiles) { return row_tiles * 8; }
/// Rows that shared memory holds: a single one is read as all eight, of which one is stored.
TC_CONSTEXPR int tc_few_rows_held(int row_tiles, bool single) {
  return single ? 1 : tc_few_rows_of(row_tiles);
}
TC_CONSTEXPR int tc_few_rows_columns_of(int column_tiles, int across) {
  return column_tiles * 16 * across;
}
/// Whether a warp brings lines of 128 bytes of its columns, which four lanes share: of runs of two
/// words (16 bytes each). Else every lane brings its own (bytes of 11008 x 4096 weights: 23.5
/// us, 25.6 in lines; 16 bits 55.5, 34.2).
TC_CONSTEXPR bool tc_few_rows_in_lines(int words) { return words == 2; }
/// Where `down` warps share the terms, each of whose lanes has runs of `run`: steps of
/// each warp, and those of a block's, at most.
TC_CONSTEXPR int tc_few_rows_steps(int terms, int down, int run) {
  return (terms + down * 4 * run - 1) / (down * 4 * run);
}
TC_CONSTEXPR int tc_few_rows_own_steps(int terms, int down, int run, int splits) {
  return (tc_few_rows_steps(terms, down, run) + splits - 1) / splits;
}
/// Steps of a stage of the left operand: whole lines of shared memory.
TC_CONSTEXPR int tc_few_rows_stage(int rows, int terms, int down, int run, int splits) {
  const int lines = down * 4 * run % 64 == 0 ? 1 : 2, step = rows * down * 8 * run,
            own = (tc_few_rows_own_steps(terms, down, run, splits) + lines - 1) / lines * lines,
            fit = tc_few_rows_part / step / lines * lines;
  return own * step <= tc_few_rows_all ? own : fit > lines ? fit : lines;
}
TC_CONSTEXPR int tc_few_rows_stages(int rows, int terms, int down, int run, int splits) {
  return tc_few_rows_stage(rows, terms, down, run, splits) <
                 tc_few_rows_own_steps(terms, down, run, splits)
             ? 2
             : 1;
}
TC_CONSTEXPR int tc_few_rows_stage_bytes(int rows, int terms, int down, int run, int splits) {
  return tc_few_rows_stage(rows, terms, down, run, splits) * down * 4 * run * rows * 2;
}
/// Floats from one row of results to the next.
TC_CONSTEXPR int tc_few_rows_result_pitch(int columns) { return columns + 4; }
/// Bytes of a warp's 16 columns in a step.
TC_CONSTEXPR int tc_few_rows_slot(int words) {
  return tc_few_rows_in_lines(words) ? 16 * tc_product_line : words * 2 * 32 * tc_product_word;
}
/// Dynamic shared memory of a block: the stages and what threads bring of weights, `words` times 16
/// bytes of each run, or, after them, the sums of each warp.
TC_CONSTEXPR int tc_few_rows_bytes(int row_tiles, int column_tiles, int across, int splits,
                                   int terms, int run, int words, bool single) {
  const int rows = tc_few_rows_of(row_tiles), held = tc_few_rows_held(row_tiles, single),
            down = tc_few_rows_warps / across;
  const int operands =
      tc_few_rows_stages(held, terms, down, run, splits) *
          tc_few_rows_stage_bytes(held, terms, down, run, splits) +
      tc_few_rows_depth * column_tiles * tc_few_rows_slot(words) * tc_few_rows_warps +
      tc_few_rows_barriers;
  const int results =
      4 * down * rows * tc_few_rows_result_pitch(tc_few_rows_columns_of(column_tiles, across));
  return (operands > results ? operands : results) + tc_product_lines;
}

// ---- where groups of warps divide the work (sm_90a): one of four warps brings operands, two
// multiply

constexpr int tc_product_bringing = 128; // threads, before those that multiply
constexpr int tc_product_multiplying = 256;
constexpr int tc_product_all_threads = tc_product_bringing + tc_product_multiplying;
constexpr int tc_product_turn = 1; // named barrier of the first group's turn, then the second's
constexpr int tc_product_finishing = 3; // that of the first group's finishing, then the second's
constexpr int tc_product_piece = 64;    // columns of 16 rows that a warp stages at once
/// Of tiles of few columns, a multiple of 16.
TC_CONSTEXPR int tc_product_piece_of(int columns) {
  return columns % tc_product_piece == 0 ? tc_product_piece : columns % 32 == 0 ? 32 : 16;
}
/// Floats from one column to the next where results lie along the rows: the four warps of a group
/// stage their 64 rows together, so that each column's are whole lines of memory. What a warp
/// stores at once lies in different banks.
constexpr int tc_product_column_pitch = 68;
TC_CONSTEXPR int tc_product_piece_pitch_of(int piece) { return piece + 8; }
TC_CONSTEXPR int tc_product_staged_bytes_of(int piece) { // of a warp
  return 4 * 16 * tc_product_piece_pitch_of(piece);
}
constexpr int tc_product_barriers = 256; // bytes, more than there are

constexpr int tc_product_most_sections = 1024; // of a product's rows
/// Of the table that says where `count` sections begin.
TC_CONSTEXPR int tc_product_section_bytes(int count) { return count > 0 ? (count + 2) * 8 : 0; }

/// Where `splits` blocks share a tile's terms: bytes of the sums that one of them gets from others,
/// of half the tile; they lie where the stages were.
TC_CONSTEXPR int tc_product_joined_bytes(int rows, int columns, int splits) {
  return (splits - 1) * rows / 2 * columns * 4;
}
/// Dynamic shared memory of such a block: the ring of stages, results of each warp, barriers.
TC_CONSTEXPR int tc_product_group_bytes(int rows, int columns, int stages) {
  return stages * tc_product_stage_bytes(rows, columns) +
         tc_product_multiplying / 32 * tc_product_staged_bytes_of(tc_product_piece) +
         tc_product_barriers + tc_product_lines;
}

// ---- convolutions whose inputs stay in shared memory (tc_product_halo.h)

/// Of a slab: 16-bit channels in a line of `line` bytes.
TC_CONSTEXPR int tc_halo_slab_channels(int line) { return line / 2; }
/// Positions that `count` windows of `taps`, `dilation` apart, reach along a dimension.
TC_CONSTEXPR int tc_halo_reach(int count, int taps, int dilation) {
  return count + (taps - 1) * dilation;
}
/// The same of the innermost one: lines of shared memory from one row of positions to the next. Of
/// `whole_runs` a multiple of 8, so that 8 neighbouring rows of the product are neighbours there.
TC_CONSTEXPR int tc_halo_pitch(int count, int taps, int dilation, bool whole_runs) {
  const int reach = tc_halo_reach(count, taps, dilation);
  return whole_runs ? (reach + 7) / 8 * 8 : reach;
}
/// Pieces of a plane of w x h positions, whose rows lie `pitch` apart: 8 x 8 positions each, or as
/// many lines, one after another, of which those between rows of positions are not wanted.
TC_CONSTEXPR int tc_halo_plane_pieces(int w, int h, int pitch, bool square) {
  return square ? (w / 8) * (h / 8)
                : ((h - 1) * pitch + w + tc_product_group_rows - 1) / tc_product_group_rows;
}
/// Of one slab of a block's positions, `reached` with their halo.
TC_CONSTEXPR int tc_halo_stage_bytes(int line, int reached) {
  return (line * reached + tc_product_lines - 1) / tc_product_lines * tc_product_lines;
}
/// The tile of a device without wgmma, which a program for another one may meet.
constexpr int tc_halo_plain_rows = 128, tc_halo_plain_columns = 64, tc_halo_plain_stages = 2;
/// Dynamic shared memory: `stages` of each group, all weights, results of each warp, barriers; no
/// less than that tile takes. A piece may read up to 63 lines behind its stage, which are there.
TC_CONSTEXPR int tc_halo_bytes(int line, int reached, int stages, int weights, int columns) {
  const int plain = tc_product_shared_bytes(tc_halo_plain_rows, tc_halo_plain_columns,
                                            tc_halo_plain_stages),
            own = 2 * stages * tc_halo_stage_bytes(line, reached) + weights +
                  tc_product_multiplying / 32 *
                      tc_product_staged_bytes_of(tc_product_piece_of(columns)) +
                  tc_product_barriers + tc_product_lines;
  return own > plain ? own : plain;
}
