// A matrix product whose operands may be computed as they are read, and whose results go through a
// function before they are stored. Only kernels that fuse a product with its neighbours include it.
//
// A block computes `rows` x `columns` results. Operands come through shared memory 64 terms at a
// time, several such steps on their way while one is multiplied. Where wgmma is (sm_90a), two
// groups of four warps multiply 64 rows each with all columns; else warps multiply 16 rows with
// mma.sync. Both read the same layout: lines of 128 bytes whose 16-byte words are permuted by the
// line's number modulo 8, so that neither meets a bank twice.
//
// An operand is a type with
//   deep             runs of 8 elements lie along the terms (else along the operand's rows)
//   copied           runs are in memory as they are (else they are computed)
//   place at(row)    what all runs of a row share
//   run(place, term) copied: where the run starts, null for zeros; else run(place, term, values)
// "Rows" of the right operand are the product's columns.
#pragma once

#include "tc_product_geometry.h"
#include "tc_tensor_core.h"

/// `stages`: steps that shared memory holds. `lag`: 1 where a step's product may still run when the
/// next one starts.
template <int Rows, int Columns, int Stages, int Lag> struct tc_product_tile {
  static constexpr int rows = Rows, columns = Columns, stages = Stages, lag = Lag;
  static constexpr int row_tiles = Rows / (2 * tc_product_group_rows); // of a group of warps
  static constexpr int left_bytes = Rows * tc_product_line,
                       stage_bytes = tc_product_stage_bytes(Rows, Columns);
  // Results in shared memory, floats: of each run of 8 columns the first four, then (`upper`
  // further) the last four, so that neither writing nor reading meets a bank twice.
  static constexpr int upper = Columns / 2 + 16, pitch = tc_product_pitch(Columns);
};

/// Element (row, term) is at[row * stride + term].
template <class T> struct tc_deep_operand {
  static constexpr bool deep = true, copied = true;
  const T *from;
  long long stride;
  int rows, terms;
  struct place {
    const T *from;
  };
  TC_MEMBER place at(int row) const { return {row < rows ? from + row * stride : nullptr}; }
  TC_MEMBER const T *run(const place &p, int term) const {
    return p.from != nullptr && term < terms ? p.from + term : nullptr;
  }
};
/// Element (row, term) is at[term * stride + row].
template <class T> struct tc_flat_operand {
  static constexpr bool deep = false, copied = true;
  const T *from;
  long long stride;
  int rows, terms;
  struct place {
    const T *from;
  };
  TC_MEMBER place at(int row) const { return {row < rows ? from + row : nullptr}; }
  TC_MEMBER const T *run(const place &p, int term) const {
    return p.from != nullptr && term < terms ? p.from + term * stride : nullptr;
  }
};

template <class T, class Operand>
TC_FN void tc_operand_run(const Operand &operand, const typename Operand::place &place, int term,
                          float (&values)[8]) {
  if constexpr (Operand::copied) {
    const T *run = operand.run(place, term);
    for (int i = 0; i < 8; ++i)
      values[i] = run != nullptr ? tc_get(run[i]) : 0.0f;
  } else {
    operand.run(place, term, values);
    for (int i = 0; i < 8; ++i)
      values[i] = tc_get(tc_storage<T>::store(values[i]));
  }
}

/// For the texts around: results as a run of values, a run of values as an operand's, zeros.
TC_FN tc_vec<float, 8> tc_run_of(const float (&results)[8]) {
  tc_vec<float, 8> run;
  TC_UNROLL
  for (int i = 0; i < 8; ++i)
    run.at[i] = results[i];
  return run;
}
TC_FN void tc_give_run(const float (&from)[8], float (&values)[8]) {
  TC_UNROLL
  for (int i = 0; i < 8; ++i)
    values[i] = from[i];
}
TC_FN void tc_clear_run(float (&values)[8]) {
  TC_UNROLL
  for (int i = 0; i < 8; ++i)
    values[i] = 0.0f;
}

/// Which tile a block computes: blocks that run together share rows and columns.
TC_FN void tc_product_place(int block, int row_tiles, int column_tiles, int &row, int &column) {
  constexpr int together = 8;
  const int group = block / (together * column_tiles), rest = block % (together * column_tiles);
  const int left = row_tiles - group * together, height = left < together ? left : together;
  row = group * together + rest % height;
  column = rest / height;
}

#ifndef TC_DEVICE

template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product(const Left &left, const Right &right, const Finish &finish, int rows,
                      int columns, int terms) {
  if (threadIdx.x != 0)
    return;
  int row_tile, column_tile;
  tc_product_place(static_cast<int>(blockIdx.x), (rows + Tile::rows - 1) / Tile::rows,
                   (columns + Tile::columns - 1) / Tile::columns, row_tile, column_tile);
  const int row_end = (row_tile + 1) * Tile::rows < rows ? (row_tile + 1) * Tile::rows : rows;
  const int column_end =
      (column_tile + 1) * Tile::columns < columns ? (column_tile + 1) * Tile::columns : columns;
  for (int row8 = row_tile * Tile::rows; row8 < row_end; row8 += 8)
    for (int column = column_tile * Tile::columns; column < column_end; column += 8) {
      float sums[8][8] = {};
      for (int term8 = 0; term8 < terms; term8 += 8) {
        float a[8][8], b[8][8]; // [row or column][term]
        for (int i = 0; i < 8; ++i) {
          if constexpr (Left::deep) {
            const int row = row8 + i < rows ? row8 + i : rows - 1;
            tc_operand_run<T>(left, left.at(row), term8, a[i]);
          } else {
            float run[8];
            tc_operand_run<T>(left, left.at(row8), term8 + i, run);
            for (int j = 0; j < 8; ++j)
              a[j][i] = run[j];
          }
          if constexpr (Right::deep) {
            tc_operand_run<T>(right, right.at(column + i), term8, b[i]);
          } else {
            float run[8];
            tc_operand_run<T>(right, right.at(column), term8 + i, run);
            for (int j = 0; j < 8; ++j)
              b[j][i] = run[j];
          }
        }
        for (int i = 0; i < 8; ++i)
          for (int j = 0; j < 8; ++j)
            for (int k = 0; k < 8; ++k)
              sums[i][j] += a[i][k] * b[j][k];
      }
      for (int i = 0; i < 8 && row8 + i < row_end; ++i)
        finish(row8 + i, column, sums[i]);
    }
}

#else

/// Brings one step of an operand, 64 terms of `Extent` rows, into shared memory. Deep: line r holds
/// row r's 64 terms. Flat: 64 lines, one a term, of 64 rows each; then the next 64 rows.
template <class T, int Extent, class Operand> struct tc_operand_mover {
  static constexpr int across = Operand::deep ? 8 : Extent / 8; // runs beside each other
  static constexpr int down = tc_product_threads / across;      // lines a pass
  static constexpr int lines = Operand::deep ? Extent : tc_product_terms;
  static constexpr int passes = (lines + down - 1) / down;
  typename Operand::place places[Operand::deep ? passes : 1];

  TC_MEMBER void start(const Operand &operand, int first) {
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (Operand::deep) {
      TC_UNROLL
      for (int i = 0; i < passes; ++i)
        places[i] = operand.at(first + thread / across + i * down);
    } else {
      places[0] = operand.at(first + thread % across * 8);
    }
  }
  TC_MEMBER void move(const Operand &operand, unsigned to, int first_term) const {
    const int thread = static_cast<int>(threadIdx.x), word = thread % across;
    TC_UNROLL
    for (int i = 0; i < passes; ++i) {
      const int line = thread / across + i * down;
      if (lines % down != 0 && line >= lines)
        break;
      const unsigned target =
          to + static_cast<unsigned>(word / 8 * tc_product_block) + tc_swizzled(line, word);
      const int term = Operand::deep ? first_term + word * 8 : first_term + line;
      const typename Operand::place &place = places[Operand::deep ? i : 0];
      if constexpr (Operand::copied) {
        const T *source = operand.run(place, term);
        tc_async_copy(target, source, source != nullptr);
      } else {
        float values[8];
        operand.run(place, term, values);
        tc_shared_store(target, tc_pack(T{}, values[0], values[1]),
                        tc_pack(T{}, values[2], values[3]), tc_pack(T{}, values[4], values[5]),
                        tc_pack(T{}, values[6], values[7]));
      }
    }
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// Sums += one step: this group of warps' rows times all columns. Returns before it is done.
template <class Tile, class T, bool DeepLeft, bool DeepRight, int N>
TC_FN void tc_product_step(float (&sums)[Tile::row_tiles][N], unsigned left, unsigned right,
                           bool first) {
  const unsigned group = threadIdx.x / 128;
  tc_wgmma_start();
  TC_UNROLL
  for (int k = 0; k < tc_product_terms / 16; ++k)
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
  if (first) {
    TC_UNROLL
    for (int m = 0; m < Tile::row_tiles; ++m)
      TC_UNROLL
    for (int i = 0; i < N; ++i)
      sums[m][i] = 0.0f;
  }
  TC_UNROLL
  for (int k = 0; k < tc_product_terms; k += 16) {
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
template <int Left> TC_FN void tc_product_wait() {}

#endif

/// Hands a thread's runs of 8 results to `finish`; Whole: the tile lies inside the matrix, so that
/// nothing is asked and all that finish reads can be under way at once.
template <class Tile, bool Whole, class Finish>
TC_FN void tc_product_runs(const float *staged, const Finish &finish, int first_row,
                           int first_column, int rows, int columns) {
  constexpr int across = Tile::columns / 8;
  static_assert(Tile::rows * across % tc_product_threads == 0, "every thread has as many runs");
  const int thread = static_cast<int>(threadIdx.x);
  TC_UNROLL
  for (int i = 0; i < Tile::rows * across / tc_product_threads; ++i) {
    // A row's runs need not divide the threads (192 columns).
    constexpr bool same_column = tc_product_threads % across == 0;
    const int run = i * tc_product_threads + thread,
              row =
                  same_column ? i * (tc_product_threads / across) + thread / across : run / across,
              column = same_column ? thread % across : run % across;
    if (!Whole && (first_row + row >= rows || first_column + column * 8 >= columns))
      continue;
    const float *from = staged + row * Tile::pitch + column * 4;
    const float4 low = *reinterpret_cast<const float4 *>(from),
                 high = *reinterpret_cast<const float4 *>(from + Tile::upper);
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    finish(first_row + row, first_column + column * 8, values);
  }
}

/// Results through shared memory, so that `finish` gets runs of 8 columns and neighbouring threads
/// neighbouring runs.
template <class Tile, class Finish, int N>
TC_FN void tc_product_finish(const float (&sums)[Tile::row_tiles][N], float *staged,
                             const Finish &finish, int first_row, int first_column, int rows,
                             int columns) {
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
  __syncthreads();
  if (first_row + Tile::rows <= rows && first_column + Tile::columns <= columns)
    tc_product_runs<Tile, true>(staged, finish, first_row, first_column, rows, columns);
  else
    tc_product_runs<Tile, false>(staged, finish, first_row, first_column, rows, columns);
}

template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product(const Left &left, const Right &right, const Finish &finish, int rows,
                      int columns, int terms) {
  TC_DYN_SMEM(unsigned char, dynamic);
  // Groups of eight lines start at multiples of 1024 bytes.
  const unsigned start = (tc_shared_address(dynamic) + 1023u) & ~1023u;
  int row_tile, column_tile;
  tc_product_place(static_cast<int>(blockIdx.x), (rows + Tile::rows - 1) / Tile::rows,
                   (columns + Tile::columns - 1) / Tile::columns, row_tile, column_tile);
  const int first_row = row_tile * Tile::rows, first_column = column_tile * Tile::columns;
  tc_operand_mover<T, Tile::rows, Left> left_mover;
  tc_operand_mover<T, Tile::columns, Right> right_mover;
  left_mover.start(left, first_row);
  right_mover.start(right, first_column);

  float sums[Tile::row_tiles][Tile::columns / 2];
  const int steps = (terms + tc_product_terms - 1) / tc_product_terms;
  constexpr int ahead = Tile::stages - 1 - Tile::lag;
  const auto stage_of = [&](int step) {
    return start + static_cast<unsigned>(step % Tile::stages * Tile::stage_bytes);
  };
  const auto bring = [&](int step) {
    if (step < steps) {
      left_mover.move(left, stage_of(step), step * tc_product_terms);
      right_mover.move(right, stage_of(step) + Tile::left_bytes, step * tc_product_terms);
    }
    tc_async_end_group();
  };
  TC_UNROLL
  for (int step = 0; step < ahead; ++step)
    bring(step);
  for (int step = 0; step < steps; ++step) {
    tc_async_wait<ahead - 1>();
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    tc_wgmma_see_shared();
#endif
    __syncthreads();
    tc_product_step<Tile, T, Left::deep, Right::deep>(sums, stage_of(step),
                                                      stage_of(step) + Tile::left_bytes, step == 0);
    bring(step + ahead);
    tc_product_wait<Tile::lag>();
  }
  tc_product_wait<0>();
  tc_async_wait<0>();
  __syncthreads();
  if (steps == 0) {
    TC_UNROLL
    for (int m = 0; m < Tile::row_tiles; ++m)
      TC_UNROLL
    for (int i = 0; i < Tile::columns / 2; ++i)
      sums[m][i] = 0.0f;
  }
  unsigned char *aligned = dynamic + (start - tc_shared_address(dynamic));
  tc_product_finish<Tile>(sums, reinterpret_cast<float *>(aligned), finish, first_row, first_column,
                          rows, columns);
}

#endif
