// Products of floats: the threads of a block multiply, each adding up 8 x 8 (or 8 x 4) results in
// registers. Operands are read from shared memory 16 bytes at a time, without meeting a bank twice.
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

/// How 256 threads share a tile: `down` x `across` of them. A thread has 8 rows and as many columns
/// as are left, far apart where their operand is deep (the lines that a warp reads at once then
/// differ modulo 8), else in fours.
template <class Tile> struct tc_thread_tile_sizes {
  static constexpr int down = Tile::rows / 8, across = tc_product_threads / down;
  static constexpr int rows = 8, columns = Tile::columns / across;
  static_assert(down % 8 == 0 && across % 8 == 0 && columns % 4 == 0, "lines differ modulo 8");
};
template <class Tile> struct tc_thread_tile : tc_thread_tile_sizes<Tile> {
  using sizes = tc_thread_tile_sizes<Tile>;
  static constexpr int down = sizes::down, across = sizes::across;
  int row, column;
  /// A warp has 4 rows of 8 threads.
  TC_MEMBER tc_thread_tile() {
    const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
    row = lane / 8 + warp / (across / 8) * 4;
    column = lane % 8 + warp % (across / 8) * 8;
  }
  template <bool Deep> TC_MEMBER int row_of(int i) const {
    return Deep ? row + i * down : (row + i / 4 * down) * 4 + i % 4;
  }
  template <bool Deep> TC_MEMBER int column_of(int i) const {
    return Deep ? column + i * across : (column + i / 4 * across) * 4 + i % 4;
  }
};

/// Sums += one step.
template <class Tile, bool DeepLeft, bool DeepRight, int Rows, int Columns>
TC_FN void tc_product_threads_step(float (&sums)[Rows][Columns], unsigned left, unsigned right) {
  const tc_thread_tile<Tile> tile;
  constexpr unsigned block = tc_product_kind<float>::terms * tc_product_line;
  // Deep: a thread's lines are equal modulo 8, so that their words are as far apart as they are.
  // Flat: of line `term` the word of 4 rows.
  const unsigned left_line = left + tc_swizzled(tile.row, 0),
                 right_line = right + tc_swizzled(tile.column, 0);
  const auto flat_word = [](unsigned from, int word, int term) {
    return from + static_cast<unsigned>(word / 8) * block + tc_swizzled(term, word);
  };
#pragma unroll 2
  for (int word = 0; word < 8; ++word) {
    float a[8][4]; // deep: [row][term]; flat: [term, fours][row]
    TC_UNROLL
    for (int i = 0; i < 8; ++i)
      if constexpr (DeepLeft)
        tc_shared_load(a[i], tc_swizzled_word(left_line, word) +
                                 static_cast<unsigned>(i * tile.down * tc_product_line));
      else
        tc_shared_load(a[i], flat_word(left, tile.row + i % 2 * tile.down, word * 4 + i / 2));
    const auto left_at = [&](int row, int term) {
      return DeepLeft ? a[row][term] : a[term * 2 + row / 4][row % 4];
    };
    if constexpr (DeepRight) {
      TC_UNROLL
      for (int j = 0; j < Columns; ++j) {
        float b[4];
        tc_shared_load(b, tc_swizzled_word(right_line, word) +
                              static_cast<unsigned>(j * tile.across * tc_product_line));
        TC_UNROLL
        for (int k = 0; k < 4; ++k)
          TC_UNROLL
        for (int i = 0; i < Rows; ++i)
          sums[i][j] += left_at(i, k) * b[k];
      }
    } else {
      TC_UNROLL
      for (int k = 0; k < 4; ++k)
        TC_UNROLL
      for (int j = 0; j < Columns; j += 4) {
        float b[4];
        tc_shared_load(b, flat_word(right, tile.column + j / 4 * tile.across, word * 4 + k));
        TC_UNROLL
        for (int l = 0; l < 4; ++l)
          TC_UNROLL
        for (int i = 0; i < Rows; ++i)
          sums[i][j + l] += left_at(i, k) * b[l];
      }
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
  for (int i = 0; i < Rows; ++i)
    TC_UNROLL
  for (int j = 0; j < Columns; ++j)
    staged[tile.template row_of<DeepLeft>(i) * Tile::pitch +
           tc_staged_column<Tile>(tile.template column_of<DeepRight>(j))] = sums[i][j];
}

#endif
