// Where groups of warps multiply (tc_product_groups.h): sums of a warp, by way of its own shared
// memory, to the function that results go to, 16 rows of 64 columns (or 32, or 16) at a time; or,
// where results lie along the rows, of a group of four warps by way of theirs, 64 rows.
#pragma once

#include "tc_pipeline.h"
#include "tc_product.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// The first of the rows of each 64 that a warp finishes, or that its group does together.
template <class Finish> TC_FN int tc_product_first_row(int warp) {
  return Finish::along_rows ? 0 : warp % 4 * 16;
}
/// Rows of results of a warp: those of a tile, below each other, from `first` on, 16 of each 64 (or
/// all of them); none from `end` on.
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
/// Of a lane: the runs of 8 that it finishes of 16 rows and `Piece` columns, along the columns; or
/// `Down` of them of a column, of the group's 64 rows.
template <int Piece, int Down = 0> struct tc_product_lane_runs {
  static constexpr int down = Down, across = 128 * down / 64, count = Piece / across;
  static_assert(Piece % across == 0, "whole columns of all lanes");
  TC_MEMBER static int column(int i) {
    return i * across + static_cast<int>(threadIdx.x) % 128 / (64 / down);
  }
  TC_MEMBER static int row(int) { return static_cast<int>(threadIdx.x) % (64 / down) * down; }
};
template <int Piece> struct tc_product_lane_runs<Piece, 0> {
  static constexpr int across = Piece / 8, down = 32 / across, count = 16 / down;
  TC_MEMBER static int column(int) { return static_cast<int>(threadIdx.x) % across * 8; }
  TC_MEMBER static int row(int i) { return i * down + static_cast<int>(threadIdx.x) % 32 / across; }
};
/// Whether what runs are finished with is loaded before their results are there. Where that takes
/// too many registers, runs load for themselves.
template <class Finish> TC_MEMBER constexpr bool tc_product_fetches() {
  if constexpr (Finish::loads_ahead && !Finish::heavy) {
    if (Finish::along_rows) // each run has a column of its own
      return Finish::run > 1 && Finish::ahead_bytes + Finish::along_bytes <= tc_product_ahead_bytes;
    return Finish::ahead_bytes <= tc_product_ahead_bytes &&
           Finish::along_bytes <= tc_product_ahead_bytes;
  }
  return false;
}
/// What the runs of a lane are finished with, all on its way at once.
template <class Finish, int Piece, bool Fetches = tc_product_fetches<Finish>()>
struct tc_product_fetched {
  static constexpr bool fetches = false, early = false;
  template <bool Whole, class Rows>
  TC_MEMBER void fetch(const Finish &, const Rows &, int, int, int) {}
};
template <class Finish, int Piece> struct tc_product_fetched<Finish, Piece, true> {
  using lane = tc_product_lane_runs<Piece, Finish::along_rows ? Finish::run : 0>;
  static constexpr int columns_count = Finish::along_rows ? lane::count : 1;
  /// Early: before the piece ahead of it is finished, whose stores it would else wait behind, where
  /// registers hold both.
  static constexpr bool fetches = true, early = lane::count * Finish::ahead_bytes +
                                                    columns_count * Finish::along_bytes <=
                                                tc_product_early_bytes;
  typename Finish::of_row runs[lane::count];
  typename Finish::of_all_rows columns[columns_count];
  template <bool Whole, class Rows>
  TC_MEMBER void fetch(const Finish &finish, const Rows &rows, int tile, int first_column,
                       int end_column) {
    TC_UNROLL
    for (int i = 0; i < lane::count; ++i) {
      const int row = rows.of(tile, lane::row(i)), column = first_column + lane::column(i);
      const bool has_column = Whole || column < end_column;
      if ((Finish::along_rows || i == 0) && has_column)
        columns[i] = finish.load_along(column);
      if (has_column && (Whole || rows.has(row)))
        runs[i] = finish.load_ahead(row, column);
    }
  }
  TC_MEMBER const typename Finish::of_all_rows &along(int i) const {
    return columns[Finish::along_rows ? i : 0];
  }
};
/// A run, with what was loaded for it.
template <int Piece, int Run, class Finish>
TC_FN void tc_product_give_run(const Finish &finish,
                               const tc_product_fetched<Finish, Piece> &fetched, int i, int row,
                               int column, const float (&values)[Run]) {
  if constexpr (tc_product_fetched<Finish, Piece>::fetches)
    finish(row, column, values, fetched.runs[i], fetched.along(i));
  else
    finish(row, column, values);
}
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
    const int run = lane::column(i), line = lane::row(i), row = rows.of(tile, line);
    const float4 low = *reinterpret_cast<const float4 *>(staged +
                                                         tc_product_staged_at<Piece>(line, run)),
                 high = *reinterpret_cast<const float4 *>(
                     staged + tc_product_staged_at<Piece>(line, run + 4));
    if (!Whole && (!rows.has(row) || first_column + run >= columns))
      continue;
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    tc_product_give_run<Piece>(finish, fetched, i, row, first_column + run, values);
  }
}
/// The same where not all is there, and nothing is on its way: the runs that there are, one after
/// the other, so that those of few columns are a lane's work each. `columns` are whole runs.
template <int Piece, class Finish, class Rows>
TC_FN void tc_product_give_some(const float *staged, const Finish &finish, const Rows &rows,
                                int tile, int first_column, int columns) {
  const int left = (columns - first_column) / 8, across = left < Piece / 8 ? left : Piece / 8,
            lane = static_cast<int>(threadIdx.x) % 32;
  const int inverse = 65536 / across + 1; // of numbers below 256, exact
#pragma unroll 1
  for (int i = lane; i < 16 * across; i += 32) {
    const int line = i * inverse >> 16, run = (i - line * across) * 8, row = rows.of(tile, line);
    const float4 low = *reinterpret_cast<const float4 *>(staged +
                                                         tc_product_staged_at<Piece>(line, run)),
                 high = *reinterpret_cast<const float4 *>(
                     staged + tc_product_staged_at<Piece>(line, run + 4));
    if (!rows.has(row))
      continue;
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
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
/// Where row `row` of a group's 64 is staged in its column: runs of 8 that eight threads read at
/// once lie in different banks.
TC_FN int tc_product_staged_row(int row) { return row ^ row / 32 * 4; }
/// The same of results that lie along the rows, staged a column after the other: neighbouring
/// threads have neighbouring rows, or runs of 8 of them.
template <int Piece, bool Whole, class Finish, class Rows>
TC_FN void tc_product_give_along_rows(const float *staged, const Finish &finish,
                                      const tc_product_fetched<Finish, Piece> &fetched,
                                      const Rows &rows, int tile, int first_column, int columns) {
  if constexpr (Finish::run > 1) {
    constexpr int run = Finish::run;
    using lane = tc_product_lane_runs<Piece, run>;
    const int line = lane::row(0), row = rows.of(tile, line);
    if (!Whole && !rows.has(row))
      return;
#pragma unroll(Finish::heavy ? 1 : lane::count)
    for (int i = 0; i < lane::count; ++i) {
      const int column = lane::column(i);
      if (!Whole && first_column + column >= columns)
        break;
      const float *const from = staged + column * tc_product_column_pitch;
      float values[run];
      TC_UNROLL
      for (int j = 0; j < run; j += 4)
        *reinterpret_cast<float4 *>(values + j) =
            *reinterpret_cast<const float4 *>(from + tc_product_staged_row(line + j));
      tc_product_give_run<Piece>(finish, fetched, i, row, first_column + column, values);
    }
  } else {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = threadIdx.x / 32 % 4,
              line = warp % 2 * 32 + lane, row = rows.of(tile, line);
    if (!Whole && !rows.has(row))
      return;
#pragma unroll(Finish::heavy ? 1 : 4)
    for (int column = warp / 2; column < Piece; column += 2) {
      if (!Whole && first_column + column >= columns)
        break;
      const float values[1] = {
          staged[column * tc_product_column_pitch + tc_product_staged_row(line)]};
      finish(row, first_column + column, values);
    }
  }
}
/// One of the parts that a warp's sums are finished in, 16 rows of `Piece` columns, to shared
/// memory, a row after the other or (`Along`) a column of the group's rows; or zeros, where nothing
/// was added up.
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
      const int of_group = tc_product_staged_row(static_cast<int>(threadIdx.x) / 32 % 4 * 16 + row);
      staged[column * tc_product_column_pitch + of_group] = two.x;
      staged[(column + 1) * tc_product_column_pitch + of_group] = two.y;
    } else {
      *reinterpret_cast<float2 *>(staged + tc_product_staged_at<Piece>(row, column)) = two;
    }
  }
}
template <int Piece, bool Whole, class Finish, class Rows>
TC_FN void tc_product_give_piece(const float *staged, const Finish &finish,
                                 const tc_product_fetched<Finish, Piece> &fetched, const Rows &rows,
                                 int tile, int column, int columns) {
  if constexpr (Finish::along_rows)
    tc_product_give_along_rows<Piece, Whole>(staged, finish, fetched, rows, tile, column, columns);
  else if constexpr (Finish::run == 1)
    tc_product_give_singly<Piece, Whole>(staged, finish, rows, tile, column, columns);
  else if constexpr (Whole || tc_product_fetched<Finish, Piece>::fetches)
    tc_product_give_runs<Piece, Whole>(staged, finish, fetched, rows, tile, column, columns);
  else
    tc_product_give_some<Piece>(staged, finish, rows, tile, column, columns);
}
/// Results of 16 rows of each 64 (`rows`), by way of shared memory to `finish`, `Piece` columns at
/// a time. What the first are finished with is on its way. A loop: the text of what finishes is
/// there once, which compiles in a quarter of the time and stays in the instructions' cache.
/// Parts of which all is there have no branches; those behind the last column cost nothing.
template <int Piece, int M, int N, class Finish, class Rows>
TC_FN void tc_product_give(const float (&sums)[M][N], float *staged, const Finish &finish,
                           tc_product_fetched<Finish, Piece> &fetched, const Rows &rows,
                           int first_column, int columns, bool zeros) {
  constexpr int pieces = 2 * N / Piece;
  const int left = (columns - first_column + Piece - 1) / Piece,
            own = left < pieces ? left : pieces, lane = static_cast<int>(threadIdx.x) % 32;
  const auto has_rows = [&](int tile) {
    const bool mine = Finish::along_rows
                          ? rows.has(rows.of(tile, lane)) && rows.has(rows.of(tile, lane + 32))
                          : rows.has(rows.of(tile, lane % 16));
    return __all_sync(0xffffffffu, mine) != 0;
  };
  const auto meet = [&] { // who stages together
    if constexpr (Finish::along_rows)
      tc_group_sync(tc_product_finishing + tc_of_warp(static_cast<int>(threadIdx.x) / 128) - 1,
                    128);
    else
      __syncwarp();
  };
  int tile = 0, piece = 0;
  bool whole = has_rows(0);
  const auto fetch = [&](tc_product_fetched<Finish, Piece> &to) {
    const int column = first_column + piece * Piece;
    if (whole && column + Piece <= columns)
      to.template fetch<true>(finish, rows, tile, column, columns);
    else
      to.template fetch<false>(finish, rows, tile, column, columns);
  };
#pragma unroll 1
  for (bool more = true; more;) {
    const int here = tile, column = first_column + piece * Piece;
    const bool all = whole && column + Piece <= columns;
    tc_product_stage<Piece, Finish::along_rows>(sums, tile * pieces + piece, staged, zeros);
    if (++piece == own) {
      piece = 0;
      more = ++tile < M;
      if (M > 1 && more)
        whole = has_rows(tile);
    }
    tc_product_fetched<Finish, Piece> next = fetched;
    if (fetched.early && more)
      fetch(next);
    meet();
    if (all)
      tc_product_give_piece<Piece, true>(staged, finish, fetched, rows, here, column, columns);
    else
      tc_product_give_piece<Piece, false>(staged, finish, fetched, rows, here, column, columns);
    fetched = next;
    if (!fetched.early && more)
      fetch(fetched);
    meet();
  }
}

#endif
