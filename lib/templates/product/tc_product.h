// A matrix product whose operands may be computed as they are read, and whose results go through a
// function before they are stored. Only kernels that fuse a product with its neighbours include it.
//
// A block computes `rows` x `columns` results. Operands come through shared memory 128 bytes of
// terms at a time, several such steps on their way while one is multiplied. Products of 16-bit
// floats and of TF32: where wgmma is (sm_90a), two groups of four warps multiply 64 rows each with
// all columns; else warps multiply 16 rows with mma.sync. Products of floats: threads add up 8 x 16
// (or fewer) results each. All read the same layout: lines of 128 bytes whose 16-byte words are
// permuted by the line's number modulo 8, so that none meets a bank twice.
#pragma once

#include "tc_product_operands.h"
#include "tc_product_threads.h"

/// Which tile a block computes: blocks that run together share rows and columns.
TC_FN void tc_product_place(int block, int row_tiles, int column_tiles, int &row, int &column) {
  constexpr int together = 8;
  const int group = block / (together * column_tiles), rest = block % (together * column_tiles);
  const int left = row_tiles - group * together, height = left < together ? left : together;
  row = group * together + rest % height;
  column = rest / height;
}

/// A tile of results, and what it is the product of.
struct tc_product_tile_place {
  int matrix;             // of a batch, or of a section
  int first_row, end_row; // of the left operand; rows from end_row on are not this product's
  int above;              // rows of results before the left operand's first
  int first_column;
  bool is_empty; // the sum of nothing
};

/// The same tile with one product in it.
template <class Tile> struct tc_product_alone : Tile { static constexpr int products = 1; };

/// The rows of a batch of products, one product's below the other's.
struct tc_product_batches {
  static constexpr bool one_operand = true; // on the right, where there is one product
  int rows, batches;                        // of one product; products
  TC_MEMBER int matrices() const { return batches; }
  /// Columns of the tile that begins with product `matrix`, `columns` of each.
  template <class Tile> TC_MEMBER int columns_of(int matrix, int columns) const {
    const int left = batches - matrix;
    return columns * (left < Tile::products ? left : Tile::products);
  }
  template <class Tile, int Rows = Tile::rows> TC_MEMBER int tiles(int columns) const {
    return (rows + Rows - 1) / Rows * ((columns + Tile::columns - 1) / Tile::columns) *
           ((batches + Tile::products - 1) / Tile::products);
  }
  template <class Tile, int Rows = Tile::rows>
  TC_MEMBER tc_product_tile_place place(int tile, int columns) const {
    const int row_tiles = (rows + Rows - 1) / Rows,
              column_tiles = (columns + Tile::columns - 1) / Tile::columns,
              unit = tile / (row_tiles * column_tiles), batch = unit * Tile::products;
    int row, column;
    tc_product_place(tile - unit * row_tiles * column_tiles, row_tiles, column_tiles, row, column);
    return {batch, row * Rows, rows, batch * rows, column * Tile::columns, false};
  }
};

/// The tile of a section, its rows from `start` on, that comes `tile` tiles after its first one.
template <class Tile, int Rows>
TC_FN tc_product_tile_place tc_product_section_place(int tile, int section, int start, int end,
                                                     int columns, bool is_empty) {
  int row, column;
  tc_product_place(tile, (end - start + Rows - 1) / Rows,
                   (columns + Tile::columns - 1) / Tile::columns, row, column);
  return {is_empty ? 0 : section, start + row * Rows, end, 0, column * Tile::columns, is_empty};
}
/// Rows in sections, each of which has a matrix of its own: `ends` says behind which row each of
/// the `count` ends. An end before the last one, or behind all rows, is taken for that. What is
/// behind the last section is zeros.
struct tc_product_sections {
  const int *ends;
  int count, rows;
  template <class Tile> TC_MEMBER int columns_of(int, int columns) const { return columns; }
  TC_MEMBER int end(int section, int start) const {
    if (section >= count)
      return rows;
    const int end = ends[section];
    return end < start ? start : end < rows ? end : rows;
  }
  template <class Tile, int Rows = Tile::rows> TC_MEMBER int tiles(int columns) const {
    int row_tiles = 0;
    for (int i = 0, start = 0; i <= count; ++i) {
      const int stop = end(i, start);
      row_tiles += (stop - start + Rows - 1) / Rows;
      start = stop;
    }
    return row_tiles * ((columns + Tile::columns - 1) / Tile::columns);
  }
  template <class Tile, int Rows = Tile::rows>
  TC_MEMBER tc_product_tile_place place(int tile, int columns) const {
    const int across = (columns + Tile::columns - 1) / Tile::columns;
    int section = 0, start = 0, stop = end(0, 0);
    for (; section < count && tile >= (stop - start + Rows - 1) / Rows * across; ++section) {
      tile -= (stop - start + Rows - 1) / Rows * across;
      start = stop;
      stop = end(section + 1, start);
    }
    return tc_product_section_place<Tile, Rows>(tile, section, start, stop, columns,
                                                section == count);
  }
};

#ifndef TC_DEVICE

/// An operand's rows from `row` on, 8 of them, at one word of terms: [row][term].
template <class T, class Operand>
TC_FN void tc_operand_block(const Operand &operand, int row, int last_row, int term,
                            float (&block)[8][tc_product_kind<T>::word]) {
  using element = typename tc_product_kind<T>::element;
  constexpr int word = tc_product_kind<T>::word;
  if constexpr (Operand::deep) {
    for (int i = 0; i < 8; ++i)
      tc_operand_run<element>(operand, operand.at(row + i < last_row ? row + i : last_row), term,
                              block[i]);
  } else {
    for (int i = 0; i < word; ++i)
      for (int first = 0; first < 8; first += word) {
        float run[word];
        tc_operand_run<element>(operand, operand.at(row + first), term + i, run);
        for (int j = 0; j < word; ++j)
          block[first + j][i] = run[j];
      }
  }
}

template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_of_tile(const tc_product_tile_place &place, const Left &all_left,
                              const Right &all_right, const Finish &finish, int columns,
                              int all_terms, int = 0, int = 1) {
  if (threadIdx.x != 0)
    return;
  constexpr int word = tc_product_kind<T>::word;
  const Left left = tc_operand_of(all_left, place.matrix);
  const Right right = tc_operand_of(all_right, place.matrix);
  const int terms = place.is_empty ? 0 : all_terms, rows = place.end_row, above = place.above;
  const int row_end = place.first_row + Tile::rows < rows ? place.first_row + Tile::rows : rows;
  const int column_end =
      place.first_column + Tile::columns < columns ? place.first_column + Tile::columns : columns;
  for (int row8 = place.first_row; row8 < row_end; row8 += 8)
    for (int column = place.first_column; column < column_end; column += 8) {
      // Sums of sums: one that goes on for all terms is off by as many roundings of itself.
      constexpr int together = 64; // terms
      float sums[8][8] = {};
      for (int first = 0; first < terms; first += together) {
        const int end = first + together < terms ? first + together : terms;
        float parts[8][8] = {};
        for (int term = first; term < end; term += word) {
          float a[8][word], b[8][word]; // [row or column][term]
          tc_operand_block<T>(left, row8, rows - 1, term, a);
          tc_operand_block<T>(right, column, columns - 1, term, b);
          for (int i = 0; i < 8; ++i)
            for (int j = 0; j < 8; ++j)
              for (int k = 0; k < word; ++k)
                parts[i][j] += a[i][k] * b[j][k];
        }
        for (int i = 0; i < 8; ++i)
          for (int j = 0; j < 8; ++j)
            sums[i][j] += parts[i][j];
      }
      if constexpr (Finish::run > 1 && Finish::along_rows) {
        constexpr int run = Finish::run; // rows are a multiple of it
        for (int j = 0; j < 8 && column + j < column_end; ++j)
          for (int first = 0; first < 8 && row8 + first < row_end; first += run) {
            float results[run];
            for (int i = 0; i < run; ++i)
              results[i] = sums[first + i][j];
            finish(above + row8 + first, column + j, results);
          }
      } else {
        for (int i = 0; i < 8 && row8 + i < row_end; ++i)
          if constexpr (Finish::run == 8) {
            finish(above + row8 + i, column, sums[i]);
          } else {
            for (int j = 0; j < 8 && column + j < column_end; ++j) {
              const float result[1] = {sums[i][j]};
              finish(above + row8 + i, column + j, result);
            }
          }
      }
    }
}

#else

// ---- products by matrix units

/// The first of the 16 rows that this warp multiplies of its group's tile `m` of 64.
template <class Tile> TC_FN int tc_product_row(int m) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  return (warp / 4 * Tile::row_tiles + m) * 64 + warp % 4 * 16;
}
/// Rows from `row` on, 8 terms from 8 * k on, rounded.
TC_FN void tc_load_tf32(unsigned (&a)[4], unsigned left, int row, int k) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  tc_load_matrices<false>(a,
                          tc_swizzled_word(left + tc_swizzled(row + lane % 16, lane / 16), k * 2));
  TC_UNROLL
  for (int i = 0; i < 4; ++i)
    a[i] = tc_round_tf32(__uint_as_float(a[i]));
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// Sums += one step: this group of warps' rows times all columns. Returns before it is done.
template <class Tile, class T, bool DeepLeft, bool DeepRight, int N>
TC_FN void tc_product_step(float (&sums)[Tile::row_tiles][N], unsigned left, unsigned right,
                           bool first) {
  const unsigned group = threadIdx.x / 128;
  tc_wgmma_start();
  TC_UNROLL
  for (int k = 0; k < tc_product_kind<T>::terms / 16; ++k)
    TC_UNROLL
  for (int m = 0; m < Tile::row_tiles; ++m) {
    const unsigned a =
        left + (group * Tile::row_tiles + m) * tc_product_block + k * (DeepLeft ? 32u : 2048u);
    const unsigned b = right + k * (DeepRight ? 32u : 2048u);
    tc_multiply_group<DeepLeft ? 0 : 1, DeepRight ? 0 : 1>(
        T{}, sums[m], tc_wgmma_descriptor(a, tc_product_block),
        tc_wgmma_descriptor(b, tc_product_block), first && k == 0 ? 0 : 1);
  }
  tc_wgmma_end_group();
}
/// The same of TF32: the left operand passes through registers, where it is rounded.
template <class Tile, int N>
TC_FN void tc_product_tf32_step(float (&sums)[Tile::row_tiles][N], unsigned left, unsigned right,
                                bool first) {
  static_assert(Tile::lag == 0, "registers of the left operand are written again");
  constexpr int groups = tc_product_kind<tc_tf32>::terms / 8;
  unsigned a[Tile::row_tiles][groups][4];
  TC_UNROLL
  for (int m = 0; m < Tile::row_tiles; ++m)
    TC_UNROLL
  for (int k = 0; k < groups; ++k)
    tc_load_tf32(a[m][k], left, tc_product_row<Tile>(m), k);
  tc_wgmma_start();
  TC_UNROLL
  for (int k = 0; k < groups; ++k)
    TC_UNROLL
  for (int m = 0; m < Tile::row_tiles; ++m)
    tc_multiply_group_tf32(sums[m], a[m][k], tc_wgmma_descriptor(right + k * 32u, tc_product_block),
                           first && k == 0 ? 0 : 1);
  tc_wgmma_end_group();
}
template <int Left> TC_FN void tc_product_wait() { tc_wgmma_wait<Left>(); }

#else

/// Address of a 16 x 16 (or 8 x 16) block's line for ldmatrix.
template <bool Deep> TC_FN unsigned tc_operand_line(unsigned from, int row, int term) {
  // deep: line = row, word = term / 8; flat: line = term, word = row / 8 % 8, block = row / 64
  const int line = Deep ? row : term, word = Deep ? term / 8 : row / 8 % 8,
            block = Deep ? 0 : row / 64;
  return from + static_cast<unsigned>(block * tc_product_block) + tc_swizzled(line, word);
}
template <class Tile, class T, bool DeepLeft, bool DeepRight, int N>
TC_FN void tc_product_step(float (&sums)[Tile::row_tiles][N], unsigned left, unsigned right,
                           bool first) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  if (first)
    tc_clear_sums(sums);
  TC_UNROLL
  for (int k = 0; k < tc_product_line / 2; k += 16) { // 16 bits: one element, or two
    unsigned a[Tile::row_tiles][4];
    TC_UNROLL
    for (int m = 0; m < Tile::row_tiles; ++m) {
      const int row = (warp / 4 * Tile::row_tiles + m) * 64 + warp % 4 * 16;
      if constexpr (DeepLeft)
        tc_load_matrices<false>(a[m],
                                tc_operand_line<true>(left, row + lane % 16, k + lane / 16 * 8));
      else
        tc_load_matrices<true>(a[m], tc_operand_line<false>(left, row + lane / 8 % 2 * 8,
                                                            k + lane / 16 * 8 + lane % 8));
    }
    TC_UNROLL
    for (int n = 0; n < Tile::columns; n += 16) {
      unsigned b[4];
      if constexpr (DeepRight)
        tc_load_matrices<false>(
            b, tc_operand_line<true>(right, n + lane / 16 * 8 + lane % 8, k + lane / 8 % 2 * 8));
      else
        tc_load_matrices<true>(
            b, tc_operand_line<false>(right, n + lane / 16 * 8, k + lane / 8 % 2 * 8 + lane % 8));
      TC_UNROLL
      for (int m = 0; m < Tile::row_tiles; ++m) {
        tc_multiply(T{}, sums[m] + n / 2, a[m], b[0], b[1]);
        tc_multiply(T{}, sums[m] + n / 2 + 4, a[m], b[2], b[3]);
      }
    }
  }
}
template <class Tile, int N>
TC_FN void tc_product_tf32_step(float (&sums)[Tile::row_tiles][N], unsigned left, unsigned right,
                                bool first) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  if (first)
    tc_clear_sums(sums);
  TC_UNROLL
  for (int k = 0; k < tc_product_kind<tc_tf32>::terms / 8; ++k) {
    unsigned a[Tile::row_tiles][4];
    TC_UNROLL
    for (int m = 0; m < Tile::row_tiles; ++m)
      tc_load_tf32(a[m], left, tc_product_row<Tile>(m), k);
    TC_UNROLL
    for (int n = 0; n < Tile::columns; n += 16) {
      unsigned b[4]; // rounded when it was brought
      tc_load_matrices<false>(
          b,
          tc_swizzled_word(right + tc_swizzled(n + lane / 16 * 8 + lane % 8, lane / 8 % 2), k * 2));
      TC_UNROLL
      for (int m = 0; m < Tile::row_tiles; ++m) {
        tc_multiply_tf32(sums[m] + n / 2, a[m], b[0], b[1]);
        tc_multiply_tf32(sums[m] + n / 2 + 4, a[m], b[2], b[3]);
      }
    }
  }
}
template <int Left> TC_FN void tc_product_wait() {}

#endif

/// Where the result of a row and a column of the tile is staged, floats.
template <class Tile> TC_FN int tc_product_result_at(int row, int column) {
  return row * Tile::pitch + column / 8 * 4 + column % 4 + column / 4 % 2 * Tile::upper;
}
/// Hands results one by one to `finish`, neighbouring threads neighbouring ones of a row, or of a
/// column where what is stored lies along rows.
template <class Tile, int Threads, bool Whole, class Finish>
TC_FN void tc_product_singly(const float *staged, const Finish &finish, int first_row,
                             int first_column, int rows, int columns) {
#pragma unroll 4
  for (int i = static_cast<int>(threadIdx.x); i < Tile::rows * Tile::columns; i += Threads) {
    const int row = Finish::along_rows ? i % Tile::rows : i / Tile::columns,
              column = Finish::along_rows ? i / Tile::rows : i % Tile::columns;
    if (!Whole && (first_row + row >= rows || first_column + column >= columns))
      continue;
    const float result[1] = {staged[tc_product_result_at<Tile>(row, column)]};
    finish(first_row + row, first_column + column, result);
  }
}
/// The same, a run of rows of a column at once; rows are a multiple of it.
template <class Tile, int Threads, class Finish>
TC_FN void tc_product_row_runs(const float *staged, const Finish &finish, int first_row,
                               int first_column, int rows, int columns) {
  constexpr int run = Finish::run, down = Tile::rows / run;
  for (int i = static_cast<int>(threadIdx.x); i < down * Tile::columns; i += Threads) {
    const int row = i % down * run, column = i / down;
    if (first_row + row >= rows || first_column + column >= columns)
      continue;
    float results[run];
    for (int j = 0; j < run; ++j)
      results[j] = staged[tc_product_result_at<Tile>(row + j, column)];
    finish(first_row + row, first_column + column, results);
  }
}
/// Hands a thread's runs of 8 results to `finish`; Whole: the tile lies inside the matrix, so that
/// nothing is asked and all that finish reads can be under way at once.
template <class Tile, int Threads, bool Whole, class Finish>
TC_FN void tc_product_runs(const float *staged, const Finish &finish, int first_row,
                           int first_column, int rows, int columns) {
  constexpr int across = Tile::columns / 8, runs = Tile::rows * across;
  static_assert(runs % Threads == 0 || runs < Threads, "every thread has as many runs, or one");
  const int thread = static_cast<int>(threadIdx.x);
#pragma unroll(Finish::heavy ? 1 : (runs + Threads - 1) / Threads)
  for (int i = 0; i < (runs + Threads - 1) / Threads; ++i) {
    // A row's runs need not divide the threads (192 columns).
    constexpr bool same_column = Threads % across == 0;
    const int run = i * Threads + thread,
              row = same_column ? i * (Threads / across) + thread / across : run / across,
              column = same_column ? thread % across : run % across;
    if ((runs < Threads && run >= runs) ||
        (!Whole && (first_row + row >= rows || first_column + column * 8 >= columns)))
      continue;
    const float *from = staged + row * Tile::pitch + column * 4;
    const float4 low = *reinterpret_cast<const float4 *>(from),
                 high = *reinterpret_cast<const float4 *>(from + Tile::upper);
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    finish(first_row + row, first_column + column * 8, values);
  }
}

/// Results of matrix units to shared memory.
template <class Tile, int N>
TC_FN void tc_product_stage(const float (&sums)[Tile::row_tiles][N], float *staged) {
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
  TC_UNROLL
  for (int m = 0; m < Tile::row_tiles; ++m) {
    const int row = (warp / 4 * Tile::row_tiles + m) * 64 + warp % 4 * 16 + lane / 4;
    float *to = staged + row * Tile::pitch + lane % 4 / 2 * Tile::upper + lane % 2 * 2;
    TC_UNROLL
    for (int i = 0; i < N; i += 2)
      *reinterpret_cast<float2 *>(to + i / 2 % 2 * 8 * Tile::pitch + i / 4 * 4) =
          make_float2(sums[m][i], sums[m][i + 1]);
  }
}

/// Hands staged results to `finish`, which gets runs of 8 columns (or rows) or single ones
/// (Finish::run), and neighbouring threads neighbouring runs.
template <class Tile, int Threads, class Finish>
TC_FN void tc_product_finish(const float *staged, const Finish &finish, int first_row,
                             int first_column, int rows, int columns) {
  __syncthreads();
  const bool whole = first_row + Tile::rows <= rows && first_column + Tile::columns <= columns;
  if constexpr (Finish::run > 1 && Finish::along_rows)
    tc_product_row_runs<Tile, Threads>(staged, finish, first_row, first_column, rows, columns);
  else if constexpr (Finish::run == 1)
    if (whole)
      tc_product_singly<Tile, Threads, true>(staged, finish, first_row, first_column, rows,
                                             columns);
    else
      tc_product_singly<Tile, Threads, false>(staged, finish, first_row, first_column, rows,
                                              columns);
  else if (whole)
    tc_product_runs<Tile, Threads, true>(staged, finish, first_row, first_column, rows, columns);
  else
    tc_product_runs<Tile, Threads, false>(staged, finish, first_row, first_column, rows, columns);
}

/// What a thread keeps of a tile.
template <class Tile, bool ByThreads> struct tc_product_sums {
  static constexpr int rows = Tile::row_tiles, columns = Tile::columns / 2;
};
template <class Tile> struct tc_product_sums<Tile, true> : tc_thread_tile_sizes<Tile> {};

/// Sums of all steps by matrix units: a step's product runs while the next ones are brought.
template <class Tile, class T, bool DeepLeft, bool DeepRight, int N, class StageOf, class Bring>
TC_FN void tc_product_by_units(float (&sums)[Tile::row_tiles][N], int steps,
                               const StageOf &stage_of, const Bring &bring) {
  constexpr int ahead = Tile::stages - 1 - Tile::lag;
  TC_UNROLL
  for (int step = 0; step < ahead; ++step)
    bring(step);
  for (int step = 0; step < steps; ++step) {
    tc_async_wait<ahead - 1>();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    tc_wgmma_see_shared();
#endif
    __syncthreads();
    const unsigned left_at = stage_of(step), right_at = left_at + Tile::left_bytes;
    if constexpr (tc_product_kind<T>::rounds)
      tc_product_tf32_step<Tile>(sums, left_at, right_at, step == 0);
    else
      tc_product_step<Tile, T, DeepLeft, DeepRight>(sums, left_at, right_at, step == 0);
    bring(step + ahead);
    tc_product_wait<Tile::lag>();
  }
  tc_product_wait<0>();
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// Of a tile whose terms several blocks share, a cluster: the results that each of them finishes,
/// rows, or columns where what is stored lies along the rows.
template <class Tile, bool AlongRows> struct tc_product_own_results : Tile {
  static constexpr int rows = AlongRows ? Tile::rows : Tile::rows / Tile::splits,
                       columns = AlongRows ? Tile::columns / Tile::splits : Tile::columns;
  static_assert(rows > 0 && columns % 8 == 0, "whole runs");
  static constexpr int apart = AlongRows ? columns / 8 * 4 : rows * Tile::pitch; // staged, floats
};
/// Adds up what the blocks of the cluster have staged of this block's share, in their order.
template <class Own, int Threads> TC_FN void tc_product_add_up(float *staged) {
  constexpr int across = Own::columns / 8, count = Own::rows * across * 2; // fours
  for (int i = static_cast<int>(threadIdx.x); i < count; i += Threads) {
    float *const at =
        staged + i / across / 2 * Own::pitch + i / across % 2 * Own::upper + i % across * 4;
    const unsigned here = tc_shared_address(at);
    float4 parts[Own::splits];
    TC_UNROLL
    for (int block = 0; block < Own::splits; ++block)
      parts[block] = tc_cluster_load(tc_cluster_address(here, static_cast<unsigned>(block)));
    TC_UNROLL
    for (int block = 1; block < Own::splits; ++block) {
      parts[0].x += parts[block].x;
      parts[0].y += parts[block].y;
      parts[0].z += parts[block].z;
      parts[0].w += parts[block].w;
    }
    *reinterpret_cast<float4 *>(at) = parts[0];
  }
}

#endif

/// The part `part` of the terms, of `parts`. Where there are several, blocks of a cluster have one
/// each.
template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_of_tile(const tc_product_tile_place &place, const Left &all_left,
                              const Right &all_right, const Finish &finish, int columns, int terms,
                              int part = 0, int parts = 1) {
  using kind = tc_product_kind<T>;
  using sizes = tc_product_sums<Tile, kind::by_threads>;
  TC_DYN_SMEM(unsigned char, dynamic);
  // Groups of eight lines start at multiples of 1024 bytes.
  const unsigned start = (tc_shared_address(dynamic) + 1023u) & ~1023u;
  const Left left = tc_operand_of(all_left, place.matrix);
  const Right right = tc_operand_of(all_right, place.matrix);
  const int first_row = place.first_row, first_column = place.first_column;
  typename tc_mover<T, Tile::rows, Left, false>::type left_mover;
  typename tc_mover<T, Tile::columns, Right, true>::type right_mover;
  left_mover.start(left, first_row);
  right_mover.start(right, first_column);

  float sums[sizes::rows][sizes::columns];
  const int all_steps = place.is_empty ? 0 : (terms + kind::terms - 1) / kind::terms,
            first_step = all_steps * part / parts,
            steps = all_steps * (part + 1) / parts - first_step;
  const auto stage_of = [&](int step) {
    return start + static_cast<unsigned>(step % Tile::stages * Tile::stage_bytes);
  };
  const auto bring = [&](int step) {
    if (step < steps) {
      const int term = (first_step + step) * kind::terms;
      left_mover.move(left, stage_of(step), term);
      right_mover.move(right, stage_of(step) + Tile::left_bytes, term);
    }
    tc_async_end_group();
  };
  if constexpr (kind::by_threads)
    tc_product_by_threads<Tile, Left::deep, Right::deep>(sums, steps, stage_of, bring);
  else
    tc_product_by_units<Tile, T, Left::deep, Right::deep>(sums, steps, stage_of, bring);
  tc_async_wait<0>();
  __syncthreads();
  float *staged = reinterpret_cast<float *>(dynamic + (start - tc_shared_address(dynamic)));
  if constexpr (kind::by_threads) {
    tc_product_threads_stage<Tile, Left::deep, Right::deep>(sums, staged);
  } else {
    if (steps == 0)
      tc_clear_sums(sums);
    tc_product_stage<Tile>(sums, staged);
  }
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if constexpr (Tile::splits > 1) {
    using own_results = tc_product_own_results<Tile, Finish::run == 1 && Finish::along_rows>;
    tc_cluster_arrive();
    tc_cluster_wait();
    float *const own = staged + part * own_results::apart;
    tc_product_add_up<own_results, kind::threads>(own);
    tc_cluster_arrive_relaxed();
    const bool below = own_results::rows < Tile::rows; // else beside each other
    tc_product_finish<own_results, kind::threads>(
        own, finish, place.above + first_row + (below ? part * own_results::rows : 0),
        first_column + (below ? 0 : part * own_results::columns), place.above + place.end_row,
        columns);
    tc_cluster_wait(); // others still read this block's sums
    return;
  }
#endif
  tc_product_finish<Tile, kind::threads>(staged, finish, place.above + first_row, first_column,
                                         place.above + place.end_row, columns);
}

#endif

/// A block a tile, or the blocks of a cluster, which share its terms. Of a batch of products the
/// grid alone says how many there are; `finish` gets rows of all results, one product's below the
/// other's.
template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product(const Left &left, const Right &right, const Finish &finish, int rows,
                      int columns, int terms, int = 1) {
  const tc_product_batches all = {rows, 1};
  const int block = static_cast<int>(blockIdx.x);
  const tc_product_tile_place place = all.place<Tile>(block / Tile::splits, columns);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  const int part = Tile::splits > 1 ? static_cast<int>(tc_cluster_rank()) : 0;
  tc_product_of_tile<Tile, T>(place, left, right, finish, columns, terms, part, Tile::splits);
#else // no clusters: the first block does it all
  if (block % Tile::splits == 0)
    tc_product_of_tile<Tile, T>(place, left, right, finish, columns, terms, 0, 1);
#endif
}
