// Where groups of warps multiply (tc_product_groups.h): sums of a warp, by way of its own shared
// memory, to the function that results go to, 16 rows of 64 columns (or 32, or 16) at a time.
#pragma once

#include "tc_pipeline.h"
#include "tc_product.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// Rows of results of a warp: those of a tile, below each other, from `first` on, 16 of each 64;
/// none from `end` on.
struct tc_product_rows_below {
  int first, end;
  TC_MEMBER int of(int tile, int row) const { return first + tile * tc_product_group_rows + row; }
  TC_MEMBER bool has(int row) const { return row < end; }
};

/// Where column `column` of row `row` is staged, floats: runs of 8 that a warp reads at once lie in
/// different banks.
template <int Piece> TC_FN int tc_product_staged_at(int row, int column) {
  constexpr int pitch = tc_product_piece_pitch_of(Piece);
  return row * pitch + (column ^ ((Piece < 64 ? row : column / 32) % 2 * 4));
}
/// What the runs that a thread finishes of 16 rows and `Piece` columns are finished with, all on
/// its way at once. Where that takes too many registers, runs load for themselves.
template <class Finish> TC_MEMBER constexpr bool tc_product_fetches() {
  if constexpr (Finish::loads_ahead && !Finish::heavy && !Finish::along_rows)
    return sizeof(typename Finish::loaded) <= tc_product_ahead_bytes;
  return false;
}
/// Of a lane: its run among those of a row, and which rows it has runs of.
template <int Piece> struct tc_product_lane_runs {
  static constexpr int across = Piece / 8, down = 32 / across, count = 16 / down;
  TC_MEMBER static int column() { return static_cast<int>(threadIdx.x) % across * 8; }
  TC_MEMBER static int row(int i) { return i * down + static_cast<int>(threadIdx.x) % 32 / across; }
};
template <class Finish, int Piece, bool Fetches = tc_product_fetches<Finish>()>
struct tc_product_fetched {
  static constexpr bool fetches = false;
  template <bool Whole, class Rows>
  TC_MEMBER void fetch(const Finish &, const Rows &, int, int, int) {}
};
template <class Finish, int Piece> struct tc_product_fetched<Finish, Piece, true> {
  using lane = tc_product_lane_runs<Piece>;
  static constexpr bool fetches = true;
  typename Finish::loaded runs[lane::count];
  template <bool Whole, class Rows>
  TC_MEMBER void fetch(const Finish &finish, const Rows &rows, int tile, int first_column,
                       int columns) {
    TC_UNROLL
    for (int i = 0; i < lane::count; ++i) {
      const int row = rows.of(tile, lane::row(i)), column = first_column + lane::column();
      if (Whole || (rows.has(row) && column < columns))
        runs[i] = finish.ahead(row, column);
    }
  }
};
/// What a warp has staged of 64 rows' results, 16 rows of `Piece` columns, to `finish`: in runs of
/// 8 neighbours.
template <int Piece, bool Whole, class Finish, class Rows>
TC_FN void tc_product_give_runs(const float *staged, const Finish &finish,
                                const tc_product_fetched<Finish, Piece> &fetched, const Rows &rows,
                                int tile, int first_column, int columns) {
  using lane = tc_product_lane_runs<Piece>;
#pragma unroll(Finish::heavy ? 1                                                                   \
                             : lane::count) // a text of heavy ones would take a minute to compile
  for (int i = 0; i < lane::count; ++i) {
    const int run = lane::column(), line = lane::row(i), row = rows.of(tile, line);
    const float4 low = *reinterpret_cast<const float4 *>(staged +
                                                         tc_product_staged_at<Piece>(line, run)),
                 high = *reinterpret_cast<const float4 *>(
                     staged + tc_product_staged_at<Piece>(line, run + 4));
    if (!Whole && (!rows.has(row) || first_column + run >= columns))
      continue;
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if constexpr (tc_product_fetched<Finish, Piece>::fetches)
      finish(row, first_column + run, values, fetched.runs[i]);
    else
      finish(row, first_column + run, values);
  }
}
/// The same one by one, neighbouring threads neighbouring columns: rows that start anywhere.
template <int Piece, bool Whole, class Finish, class Rows>
TC_FN void tc_product_give_singly(const float *staged, const Finish &finish, const Rows &rows,
                                  int tile, int first_column, int columns) {
  constexpr int across = Piece < 32 ? Piece : 32, parts = Piece / across, down = 32 / across;
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 4
  for (int i = 0; i < 16 * parts / down; ++i) {
    const int line = i / parts * down + lane / across, row = rows.of(tile, line),
              column = lane % across + i % parts * across;
    if (!Whole && (!rows.has(row) || first_column + column >= columns))
      continue;
    const float result[1] = {staged[tc_product_staged_at<Piece>(line, column)]};
    finish(row, first_column + column, result);
  }
}
/// The same of results that lie along the rows, staged a column after the other: neighbouring
/// threads have neighbouring rows, or runs of 8 of them.
template <int Piece, bool Whole, class Finish, class Rows>
TC_FN void tc_product_give_along_rows(const float *staged, const Finish &finish, const Rows &rows,
                                      int tile, int first_column, int columns) {
  constexpr int run = Finish::run, down = 16 / run, across = 32 / down;
  const int lane = static_cast<int>(threadIdx.x) % 32, line = lane % down * run,
            row = rows.of(tile, line);
  if (!Whole && !rows.has(row))
    return;
#pragma unroll(Finish::heavy ? 1 : 4)
  for (int i = 0; i < Piece / across + (Piece % across != 0 ? 1 : 0); ++i) {
    const int column = i * across + lane / down;
    if ((Piece % across != 0 && column >= Piece) || (!Whole && first_column + column >= columns))
      continue;
    const float *const from = staged + column * tc_product_column_pitch + line;
    float values[run];
    if constexpr (run == 8) {
      TC_UNROLL
      for (int j = 0; j < 8; j += 4)
        *reinterpret_cast<float4 *>(values + j) = *reinterpret_cast<const float4 *>(from + j);
    } else {
      values[0] = *from;
    }
    finish(row, first_column + column, values);
  }
}
/// One of the parts that a warp's sums are finished in, 16 rows of `Piece` columns, to shared
/// memory, a row after the other or (`Along`) a column; or zeros, where nothing was added up.
template <int Piece, bool Along, int M, int N>
TC_FN void tc_product_stage(const float (&sums)[M][N], int part, float *staged, bool zeros) {
  constexpr int pieces = 2 * N / Piece;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int p = 0; p < M * pieces; ++p) // sums are registers, whose numbers are part of the text
    if (p == part)
      TC_UNROLL
  for (int i = 0; i < Piece / 8; ++i)
    TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int at = (p % pieces * (Piece / 8) + i) * 4 + half * 2, row = lane / 4 + half * 8,
              column = i * 8 + lane % 4 * 2;
    const float2 two =
        make_float2(zeros ? 0.0f : sums[p / pieces][at], zeros ? 0.0f : sums[p / pieces][at + 1]);
    if constexpr (Along) {
      staged[column * tc_product_column_pitch + row] = two.x;
      staged[(column + 1) * tc_product_column_pitch + row] = two.y;
    } else {
      *reinterpret_cast<float2 *>(staged + tc_product_staged_at<Piece>(row, column)) = two;
    }
  }
}
/// Results of 16 rows of each 64 (`rows`), by way of shared memory to `finish`, `Piece` columns at
/// a time. What the first are finished with is on its way. A loop: the text of what finishes is
/// there once, which compiles in a quarter of the time and stays in the instructions' cache.
template <int Piece, bool Whole, int M, int N, class Finish, class Rows>
TC_FN void tc_product_give(const float (&sums)[M][N], float *staged, const Finish &finish,
                           tc_product_fetched<Finish, Piece> &fetched, const Rows &rows,
                           int first_column, int columns, bool zeros) {
  constexpr int pieces = 2 * N / Piece, parts = M * pieces;
#pragma unroll 1
  for (int part = 0; part < parts; ++part) {
    const int tile = part / pieces, column = first_column + part % pieces * Piece;
    tc_product_stage<Piece, Finish::along_rows>(sums, part, staged, zeros);
    __syncwarp();
    if constexpr (Finish::along_rows)
      tc_product_give_along_rows<Piece, Whole>(staged, finish, rows, tile, column, columns);
    else if constexpr (Finish::run == 1)
      tc_product_give_singly<Piece, Whole>(staged, finish, rows, tile, column, columns);
    else
      tc_product_give_runs<Piece, Whole>(staged, finish, fetched, rows, tile, column, columns);
    if (part + 1 < parts)
      fetched.template fetch<Whole>(finish, rows, (part + 1) / pieces,
                                    first_column + (part + 1) % pieces * Piece, columns);
    __syncwarp();
  }
}

#endif
