// Products of floats: the threads of a block multiply, each adding up 8 x 16 (8 x 8, 8 x 4) results
// in registers. Operands are read from shared memory 16 bytes at a time, without meeting a bank
// twice, while what was read before is multiplied.
#pragma once

#include "tc_product_operands.h"

#ifdef TC_DEVICE

template <int Rows, int Columns> TC_FN void tc_clear_sums(float (&sums)[Rows][Columns]) {
  TC_UNROLL
  for (int i = 0; i < Rows; ++i)
    TC_UNROLL
  for (int j = 0; j < Columns; ++j)
    sums[i][j] = 0.0f;
}

/// How the threads of a block share a tile: `down` x `across` of them. A thread has 8 rows and as
/// many columns as are left, far apart where their operand is deep (the lines that a warp reads at
/// once then differ modulo 8), else in fours.
template <class Tile> struct tc_thread_tile_sizes {
  static constexpr int down = Tile::rows / 8, across = tc_product_float_threads / down;
  static constexpr int rows = 8, columns = Tile::columns / across;
  static_assert(down % 8 == 0 && across % 8 == 0 && columns % 4 == 0, "lines differ modulo 8");
};
template <class Tile> struct tc_thread_tile : tc_thread_tile_sizes<Tile> {
  using sizes = tc_thread_tile_sizes<Tile>;
  static constexpr int down = sizes::down, across = sizes::across;
  int row, column;
  /// A warp has 4 rows of 8 threads. Half of one reads 2 rows and 8 columns, and neighbours, or
  /// threads that are two apart, the same: then 16 threads get their 16 bytes each at once, else 8.
  TC_MEMBER tc_thread_tile() {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    row = lane % 2 + lane / 16 * 2 + warp / (across / 8) * 4;
    column = lane / 2 % 8 + warp % (across / 8) * 8;
  }
  template <bool Deep> TC_MEMBER int row_of(int i) const {
    return Deep ? row + i * down : (row + i / 4 * down) * 4 + i % 4;
  }
  template <bool Deep> TC_MEMBER int column_of(int i) const {
    return Deep ? column + i * across : (column + i / 4 * across) * 4 + i % 4;
  }
};

/// What a thread reads of one operand's step: `Count` pieces of 4 floats for each 4 terms. Deep: a
/// row each; a thread's lines, `Apart` apart, are equal modulo 8, so that their words are as far
/// apart as they are. Flat: fours of rows, `Apart` words apart, of each term.
template <bool Deep, int Count, int Apart> struct tc_thread_pieces {
  unsigned from;
  TC_MEMBER tc_thread_pieces(unsigned operand, int first)
      : from(operand + (Deep ? tc_swizzled(first, 0)
                             : static_cast<unsigned>(first / 8 * block + first % 8 * 16))) {}
  TC_MEMBER void load(float (&to)[4], int word, int piece) const {
    if constexpr (Deep) {
      tc_shared_load(to, tc_swizzled_word(from, word) +
                             static_cast<unsigned>(piece * Apart * tc_product_line));
    } else {
      constexpr int fours = Count / 4;
      const int term = word * 4 + piece / fours;
      tc_shared_load(to, tc_swizzled_word(from, term % 8) +
                             static_cast<unsigned>(term * tc_product_line +
                                                   piece % fours * (Apart / 8) * block));
    }
  }

private:
  /// Bytes from a line's first 8 words to the next 8.
  static constexpr int block = tc_product_kind<float>::terms * tc_product_line;
};

/// Sums += rows x columns of one piece of the right operand; `left` are all pieces of the left one.
template <bool DeepLeft, bool DeepRight, int Rows, int Columns>
TC_FN void tc_multiply_piece(float (&sums)[Rows][Columns], const float (&left)[Rows][4],
                             const float (&right)[4], int piece) {
  TC_UNROLL
  for (int k = 0; k < 4; ++k)
    TC_UNROLL
  for (int i = 0; i < Rows; ++i) {
    const int term = DeepRight ? k : piece / (Columns / 4),
              column = DeepRight ? piece : piece % (Columns / 4) * 4 + k;
    sums[i][column] += (DeepLeft ? left[i][term] : left[term * 2 + i / 4][i % 4]) * right[k];
  }
}

/// What a thread multiplies next, in registers: of 4 terms all pieces of the left operand, and of
/// the next 4; of the right one two pieces, and the next two.
template <class Tile, bool DeepLeft, bool DeepRight> struct tc_thread_fragments {
  using sizes = tc_thread_tile_sizes<Tile>;
  static constexpr int rows = sizes::rows, columns = sizes::columns, ahead = 2,
                       words = tc_product_kind<float>::terms / 4;
  const tc_thread_tile<Tile> tile;
  tc_thread_pieces<DeepLeft, rows, sizes::down> left;
  tc_thread_pieces<DeepRight, columns, sizes::across> right;
  float a[2][rows][4], b[2 * ahead][4];

  /// At a stage's first 4 terms.
  TC_MEMBER explicit tc_thread_fragments(unsigned stage)
      : left(stage, tile.row), right(stage + Tile::left_bytes, tile.column) {
    load_left<0>(0, 0, rows);
    TC_UNROLL
    for (int piece = 0; piece < ahead; ++piece)
      right.load(b[piece], 0, piece);
  }
  TC_MEMBER void go_to(unsigned stage) {
    left = {stage, tile.row};
    right = {stage + Tile::left_bytes, tile.column};
  }
  /// Sums += 4 terms, while those after them are read. `turn` is called before what comes behind a
  /// stage's last terms, an odd four of them, is read: nothing of the stage itself is read any
  /// more.
  template <int Odd, class Turn>
  TC_MEMBER void multiply(float (&sums)[rows][columns], int word, const Turn &turn) {
    constexpr int each = rows / columns + 1;
    const int next = (word + 1) % words;
    TC_UNROLL
    for (int piece = 0; piece < columns; ++piece) {
      if (Odd && piece == columns - ahead && next == 0)
        turn();
      right.load(b[(piece + ahead) % (2 * ahead)], piece < columns - ahead ? word : next,
                 (piece + ahead) % columns);
      if constexpr (!Odd)
        load_left<1>(next, piece * each, (piece + 1) * each);
      else if (piece == columns - ahead)
        load_left<0>(next, 0, rows);
      tc_multiply_piece<DeepLeft, DeepRight>(sums, a[Odd], b[piece % (2 * ahead)], piece);
    }
  }

private:
  template <int Odd> TC_MEMBER void load_left(int word, int begin, int end) {
    TC_UNROLL
    for (int i = begin; i < end && i < rows; ++i)
      left.load(a[Odd][i], word, i);
  }
};

/// Sums of all steps. `bring(step)` starts the copies of a step into `stage_of(step)`, and ends a
/// group of copies also where there is no such step. Once all threads have read a stage it gets the
/// step `Tile::stages` further.
template <class Tile, bool DeepLeft, bool DeepRight, int Rows, int Columns, class StageOf,
          class Bring>
TC_FN void tc_product_by_threads(float (&sums)[Rows][Columns], int steps, const StageOf &stage_of,
                                 const Bring &bring) {
  using fragments = tc_thread_fragments<Tile, DeepLeft, DeepRight>;
  tc_clear_sums(sums);
  TC_UNROLL
  for (int step = 0; step < Tile::stages; ++step)
    bring(step);
  tc_async_wait<Tile::stages - 1>();
  __syncthreads();
  fragments next(stage_of(0));
  for (int step = 0; step < steps; ++step) {
    const auto turn = [&] {
      tc_async_wait<Tile::stages - 2>();
      __syncthreads();
      bring(step + Tile::stages);
      next.go_to(stage_of(step + 1));
    };
#pragma unroll 1
    for (int word = 0; word < fragments::words; word += 2) {
      next.template multiply<0>(sums, word, turn);
      next.template multiply<1>(sums, word + 1, turn);
    }
  }
}

/// Of a row of staged results: where column c is.
template <class Tile> TC_FN int tc_staged_column(int c) {
  return c / 8 * 4 + c / 4 % 2 * Tile::upper + c % 4;
}
template <class Tile, bool DeepLeft, bool DeepRight, int Rows, int Columns>
TC_FN void tc_product_threads_stage(const float (&sums)[Rows][Columns], float *staged) {
  const tc_thread_tile<Tile> tile;
  TC_UNROLL
  for (int i = 0; i < Rows; ++i) {
    float *const row = staged + tile.template row_of<DeepLeft>(i) * Tile::pitch;
    TC_UNROLL
    for (int j = 0; j < Columns; j += DeepRight ? 1 : 4) {
      float *const to = row + tc_staged_column<Tile>(tile.template column_of<DeepRight>(j));
      if constexpr (DeepRight)
        *to = sums[i][j];
      else
        *reinterpret_cast<float4 *>(to) =
            make_float4(sums[i][j], sums[i][j + 1], sums[i][j + 2], sums[i][j + 3]);
    }
  }
}

#endif
