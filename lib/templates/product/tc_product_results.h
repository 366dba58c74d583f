// Where groups of warps multiply (tc_product_groups.h): sums of a warp, by way of its own shared
// memory, to the function that results go to, 16 rows of 64 columns at a time.
#pragma once

#include "tc_pipeline.h"
#include "tc_product.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// Where column `column` of row `row` is staged, floats: runs of 8 that a warp reads at once lie in
/// different banks.
TC_FN int tc_product_staged_at(int row, int column) {
  return row * tc_product_piece_pitch + (column ^ (column / 32 % 2 * 4));
}
/// What the four runs that a thread finishes of 16 rows and 64 columns are finished with, all on
/// its way at once. Where that takes too many registers, runs load for themselves.
template <class Finish> TC_MEMBER constexpr bool tc_product_fetches() {
  if constexpr (Finish::loads_ahead && !Finish::heavy)
    return sizeof(typename Finish::loaded) <= tc_product_ahead_bytes;
  return false;
}
template <class Finish, bool Fetches = tc_product_fetches<Finish>()> struct tc_product_fetched {
  static constexpr bool fetches = false;
  template <bool Whole> TC_MEMBER void fetch(const Finish &, int, int, int, int) {}
};
template <class Finish> struct tc_product_fetched<Finish, true> {
  static constexpr bool fetches = true;
  typename Finish::loaded runs[4];
  template <bool Whole>
  TC_MEMBER void fetch(const Finish &finish, int first_row, int first_column, int rows,
                       int columns) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    TC_UNROLL
    for (int i = 0; i < 4; ++i) {
      const int row = first_row + i * 4 + lane / 8, column = first_column + lane % 8 * 8;
      if (Whole || (row < rows && column < columns))
        runs[i] = finish.ahead(row, column);
    }
  }
};
/// What a warp has staged, 16 rows of 64 columns, to `finish`: in runs of 8 neighbours.
template <bool Whole, class Finish>
TC_FN void tc_product_give_runs(const float *staged, const Finish &finish,
                                const tc_product_fetched<Finish> &fetched, int first_row,
                                int first_column, int rows, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll(Finish::heavy ? 1 : 4) // a text of heavy ones would take a minute to compile
  for (int i = 0; i < 4; ++i) {
    const int row = i * 4 + lane / 8, run = lane % 8 * 8;
    const float4 low = *reinterpret_cast<const float4 *>(staged + tc_product_staged_at(row, run)),
                 high =
                     *reinterpret_cast<const float4 *>(staged + tc_product_staged_at(row, run + 4));
    if (!Whole && (first_row + row >= rows || first_column + run >= columns))
      continue;
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if constexpr (tc_product_fetched<Finish>::fetches)
      finish(first_row + row, first_column + run, values, fetched.runs[i]);
    else
      finish(first_row + row, first_column + run, values);
  }
}
/// The same one by one, neighbouring threads neighbouring columns: rows that start anywhere.
template <bool Whole, class Finish>
TC_FN void tc_product_give_singly(const float *staged, const Finish &finish, int first_row,
                                  int first_column, int rows, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 4
  for (int i = 0; i < 32; ++i) {
    const int row = i / 2, column = lane + i % 2 * 32;
    if (!Whole && (first_row + row >= rows || first_column + column >= columns))
      continue;
    const float result[1] = {staged[tc_product_staged_at(row, column)]};
    finish(first_row + row, first_column + column, result);
  }
}
/// The same, neighbouring threads neighbouring rows: what is stored lies along them.
template <bool Whole, class Finish>
TC_FN void tc_product_give_along_rows(const float *staged, const Finish &finish, int first_row,
                                      int first_column, int rows, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 16;
#pragma unroll 2
  for (int i = 0; i < 8; ++i) {
    const int column = i * 8 + lane / 16 * 4;
    const float4 four =
        *reinterpret_cast<const float4 *>(staged + tc_product_staged_at(row, column));
    const float values[4] = {four.x, four.y, four.z, four.w};
    TC_UNROLL
    for (int j = 0; j < 4; ++j) {
      if (!Whole && (first_row + row >= rows || first_column + column + j >= columns))
        continue;
      const float result[1] = {values[j]};
      finish(first_row + row, first_column + column + j, result);
    }
  }
}
/// One of the parts that a warp's sums are finished in, 16 rows of 64 columns, to shared memory; or
/// zeros, where nothing was added up.
template <int Pieces, int M, int N>
TC_FN void tc_product_stage(const float (&sums)[M][N], int part, float *staged, bool zeros) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int p = 0; p < M * Pieces; ++p) // sums are registers, whose numbers are part of the text
    if (p == part)
      TC_UNROLL
  for (int i = 0; i < tc_product_piece / 8; ++i)
    TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int at = (p % Pieces * (tc_product_piece / 8) + i) * 4 + half * 2;
    *reinterpret_cast<float2 *>(staged +
                                tc_product_staged_at(lane / 4 + half * 8, i * 8 + lane % 4 * 2)) =
        make_float2(zeros ? 0.0f : sums[p / Pieces][at], zeros ? 0.0f : sums[p / Pieces][at + 1]);
  }
}
/// Results of 16 rows, and of 16 a group's rows further, by way of shared memory to `finish`, 64
/// columns at a time. What the first are finished with is on its way. A loop: the text of what
/// finishes is there once, which compiles in a quarter of the time and stays in the instructions'
/// cache.
template <class Tile, bool Whole, int M, int N, class Finish>
TC_FN void tc_product_give(const float (&sums)[M][N], float *staged, const Finish &finish,
                           tc_product_fetched<Finish> &fetched, int first_row, int first_column,
                           int rows, int columns, bool zeros) {
  constexpr int pieces = Tile::columns / tc_product_piece, parts = M * pieces;
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    const auto row_of = [&](int p) { return first_row + p / pieces * tc_product_group_rows; };
    const auto column_of = [&](int p) { return first_column + p % pieces * tc_product_piece; };
    tc_product_stage<pieces>(sums, part, staged, zeros);
    __syncwarp();
    if constexpr (Finish::along_rows)
      tc_product_give_along_rows<Whole>(staged, finish, row_of(part), column_of(part), rows,
                                        columns);
    else if constexpr (Finish::run == 1)
      tc_product_give_singly<Whole>(staged, finish, row_of(part), column_of(part), rows, columns);
    else
      tc_product_give_runs<Whole>(staged, finish, fetched, row_of(part), column_of(part), rows,
                                  columns);
    if (part + 1 < parts)
      fetched.template fetch<Whole>(finish, row_of(part + 1), column_of(part + 1), rows, columns);
    __syncwarp();
  }
}

#endif
