// Several products of a batch in one tile, beside each other (tc_product_tile::products): a line of
// the left operand holds a step's terms of each, which bulk copies of windows bring together.
#pragma once

#include "tc_pipeline.h"
#include "tc_product.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// One step of several products, whose terms share a line of the left operand: the slices of the
/// line, each with columns of its own (which lie along the terms, in lines as long as their terms).
template <class Tile, class T, int M, int N>
TC_FN void tc_product_start_products(float (&sums)[M][N], unsigned left_at, unsigned right_at,
                                     bool first) {
  constexpr int each = Tile::each, line = tc_product_line / Tile::products;
  const unsigned long long left = tc_wgmma_descriptor(left_at, tc_product_block),
                           right = tc_wgmma_descriptor_of<line>(right_at);
  tc_wgmma_start();
  TC_UNROLL
  for (int k = 0; k < line / 32; ++k)
    TC_UNROLL
  for (int p = 0; p < Tile::products; ++p)
    TC_UNROLL
  for (int m = 0; m < M; ++m)
    tc_multiply_group<0, 0>(T{}, reinterpret_cast<float(&)[each / 2]>(sums[m][p * (each / 2)]),
                            tc_wgmma_further(left, m * tc_product_block + p * line + k * 32u),
                            tc_wgmma_further(right, p * each * line + k * 32u),
                            first && k == 0 ? 0 : 1);
  tc_wgmma_end_group();
}
/// The same of products of 8 terms a step, which wgmma does not take apart: a warp's 16 rows at a
/// time. The columns' lines are words, one after another. Done when it returns.
template <class Tile, class T, int M, int N>
TC_FN void tc_product_add_eights(float (&sums)[M][N], unsigned left_at, unsigned right_at) {
  constexpr int blocks = Tile::products * Tile::each / 8; // of 8 columns
  static_assert(Tile::products == 8 && blocks % 4 == 0, "four 8 x 8 matrices are loaded at once");
  const unsigned lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
  unsigned right[blocks];
  TC_UNROLL
  for (int i = 0; i < blocks; i += 4)
    tc_load_matrices<false>(reinterpret_cast<unsigned(&)[4]>(right[i]),
                            right_at + static_cast<unsigned>(i) * 128u + lane * 16);
  TC_UNROLL
  for (int m = 0; m < M; ++m)
    TC_UNROLL
  for (int p = 0; p < 8; p += 2) {
    unsigned left[4]; // of two products, rows 0 to 7 and 8 to 15 of each
    tc_load_matrices<false>(left, left_at + m * tc_product_block + row * tc_product_line +
                                      ((p + lane / 16) ^ row % 8) * 16);
    TC_UNROLL
    for (int i = 0; i < Tile::each / 4; ++i) {
      const int product = p + i / (Tile::each / 8),
                block = product * (Tile::each / 8) + i % (Tile::each / 8);
      tc_multiply_eight(T{}, &sums[m][block * 4], left[product % 2 * 2], left[product % 2 * 2 + 1],
                        right[block]);
    }
  }
}
/// Where results of several products beside each other go: `each` columns of one, then of the next
/// one, whose rows are `rows` further.
template <class Finish, int Each> struct tc_product_beside : Finish {
  int rows;
  TC_MEMBER auto load_ahead(int row, int column) const {
    return Finish::load_ahead(row + column / Each * rows, column % Each);
  }
  TC_MEMBER auto load_along(int column) const { return Finish::load_along(column % Each); }
  template <int N, class... Ahead>
  TC_MEMBER void operator()(int row, int column, const float (&results)[N],
                            const Ahead &...ahead) const {
    Finish::operator()(row + column / Each * rows, column % Each, results, ahead...);
  }
};
template <class Tile, class Finish> TC_FN auto tc_product_finish(const Finish &finish, int rows) {
  if constexpr (Tile::products > 1)
    return tc_product_beside<Finish, Tile::each>{finish, rows};
  else
    return finish;
}

#endif
