// A product of few rows, whose right operand may be computed as it is read (weights of 8 or 4
// bits): memory is what it takes, so that every weight is read once, in runs of terms by the thread
// that multiplies it, the next run being under way. A warp's columns are the rows of mma.sync's
// left operand and the product's rows its columns; a thread's terms are neighbours in memory, which
// is as good an order of terms as any, if the other operand has it, too. That lies in shared
// memory, a part of the terms at a time.
//
// The warps of a block, and the blocks of a cluster, share the terms; their sums are added in
// order, so that the bits are the same in every run.
//
// The right operand is a type of runs of terms of a column (tc_operand_runs.h), with
//   paired                    a run's terms are pairs: of the 4 x run terms that four lanes have,
//                             those of lane l are 2 l, 2 l + 1, 8 + 2 l, ... (as mma.sync has them)
#pragma once

#include "tc_operand_runs.h"
#include "tc_product.h"

/// `row_tiles`: of 8 rows. `across`: warps beside each other, each with `column_tiles` of 16
/// columns; the other warps share the terms with them, as do `splits` blocks. `Single`: there is
/// one row, all of whose terms that a block needs are one stage.
template <int RowTiles, int ColumnTiles, int Across, int Splits, int Terms, bool Single>
struct tc_few_rows_tile {
  static constexpr bool single = Single;
  static constexpr int row_tiles = RowTiles, column_tiles = ColumnTiles, across = Across,
                       splits = Splits, terms = Terms, down = tc_few_rows_warps / Across,
                       held = tc_few_rows_held(RowTiles, Single);
  static constexpr int rows = tc_few_rows_of(RowTiles),
                       columns = tc_few_rows_columns_of(ColumnTiles, Across);
};

/// As tc_product_operands.h has operands: words of 8 terms.
template <class Right> struct tc_few_rows_words {
  static constexpr bool deep = true, copied = false;
  const Right &right;
  int columns, terms;
  struct place {
    int column;
  };
  TC_MEMBER place at(int column) const { return {column < columns ? column : columns - 1}; }
  template <int N> TC_MEMBER void run(const place &place, int term, float (&values)[N]) const {
    constexpr int count = Right::words > 0 ? Right::words : 1;
    const void *at[count];
    tc_operand_word words[count];
    float all[Right::run];
    for (int i = 0, known = -1; i < N; ++i) {
      const int within = (term + i) % (4 * Right::run);
      const int n = Right::paired ? (term + i) / (4 * Right::run) * 4 + within % 8 / 2
                                  : (term + i) / Right::run;
      if (n != known) {
        right.places(place.column, n, at);
        for (int k = 0; k < Right::words; ++k)
          words[k] = *static_cast<const tc_operand_word *>(at[k]);
        right.values(words, right.ahead(place.column, n), place.column, n, all);
        known = n;
      }
      values[i] = all[Right::paired ? within / 8 * 2 + within % 2 : (term + i) % Right::run];
    }
  }
};

#ifndef TC_DEVICE

template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_of_few(const Left &left, const Right &right, const Finish &finish, int rows,
                             int columns, int terms) {
  if (blockIdx.x % Tile::splits != 0)
    return;
  const tc_product_tile_place place = {0,
                                       static_cast<int>(blockIdx.y) * Tile::rows,
                                       rows,
                                       0,
                                       static_cast<int>(blockIdx.x) / Tile::splits * Tile::columns,
                                       false};
  tc_product_of_tile<Tile, T>(place, left, tc_few_rows_words<Right>{right, columns, terms}, finish,
                              columns, terms);
}

#else

/// Zeros behind the terms of a single row: nothing brings them.
template <class Tile, int Terms>
TC_FN void tc_few_rows_end(unsigned to, int first_term, int terms) {
  for (int i = (terms - first_term) / 8 + static_cast<int>(threadIdx.x); i < Terms / 8;
       i += tc_few_rows_threads)
    if (i >= 0)
      tc_shared_store(to + static_cast<unsigned>(i * 16), 0u, 0u, 0u, 0u);
}
/// Brings a stage of the left operand to `to`: after each other, lines of 64 terms of all rows, the
/// 16-byte words of a line permuted by the row's number; a single row as it lies.
template <class Tile, int Terms, class Left>
TC_FN void tc_few_rows_bring(const Left &left, unsigned to, int first_row, int first_term,
                             int terms, unsigned barrier) {
  if constexpr (Tile::single) {
    const int there = terms - first_term < Terms ? terms - first_term : Terms;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    if (threadIdx.x == 0) {
      tc_barrier_expect(barrier, static_cast<unsigned>(there * 2));
      tc_bulk_copy_bytes(to, left.run(left.at(first_row), first_term),
                         static_cast<unsigned>(there * 2), barrier);
    }
#else
    for (int i = static_cast<int>(threadIdx.x); i < there / 8; i += tc_few_rows_threads)
      tc_async_copy(to + static_cast<unsigned>(i * 16),
                    left.run(left.at(first_row), first_term + i * 8), true);
    tc_async_end_group();
    tc_async_wait<0>();
    __syncthreads();
#endif
    return;
  }
  constexpr int line = Tile::rows * tc_product_line;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (threadIdx.x == 0) {
    tc_barrier_expect(barrier, Terms / 64 * line);
    for (int i = 0; i < Terms / 64; ++i)
      tc_bulk_copy(to + static_cast<unsigned>(i * line), left.map, first_term + i * 64, first_row,
                   barrier);
  }
#else
  for (int i = static_cast<int>(threadIdx.x); i < Tile::rows * Terms / 8;
       i += tc_few_rows_threads) {
    const int row = i / (Terms / 8), word = i % (Terms / 8), term = first_term + word * 8;
    const auto *from = left.run(left.at(first_row + row), term);
    tc_async_copy(to + static_cast<unsigned>(word / 8 * line) + tc_swizzled(row, word % 8), from,
                  from != nullptr);
  }
  tc_async_end_group();
  tc_async_wait<0>();
  __syncthreads();
#endif
}

template <class Tile, class T, class Left, class Right, class Finish>
TC_FN void tc_product_of_few(const Left &left, const Right &right, const Finish &finish, int rows,
                             int columns, int terms) {
  constexpr int run = Right::run, step = 4 * run;
  constexpr int turns = tc_few_rows_stage(Tile::held, Tile::terms, Tile::down, run, Tile::splits),
                stages = tc_few_rows_stages(Tile::held, Tile::terms, Tile::down, run, Tile::splits),
                stage_bytes =
                    tc_few_rows_stage_bytes(Tile::held, Tile::terms, Tile::down, run, Tile::splits),
                stage_terms = turns * Tile::down * step;
  TC_DYN_SMEM(unsigned char, dynamic);
  const unsigned memory = (tc_shared_address(dynamic) + 1023u) & ~1023u;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32, warp = thread / 32;
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr int splits = Tile::splits;
  const int rank = splits > 1 ? static_cast<int>(tc_cluster_rank()) : 0;
#else // no clusters: the first block does it all
  constexpr int splits = 1, rank = 0;
  if (blockIdx.x % Tile::splits != 0)
    return;
#endif
  const int first_row = static_cast<int>(blockIdx.y) * Tile::rows,
            first_column = static_cast<int>(blockIdx.x) / Tile::splits * Tile::columns;
  const int own_column = first_column + warp % Tile::across * (Tile::column_tiles * 16) + lane / 4,
            own_step = warp / Tile::across;
  const int all = (terms + Tile::down * step - 1) / (Tile::down * step), // steps of a warp
      begin = all * rank / splits, end = all * (rank + 1) / splits;
  const auto column_of = [&](int tile, int half) {
    const int column = own_column + tile * 16 + half * 8;
    return column < columns ? column : columns - 1;
  };
  const auto step_of = [&](int i) { return (i * Tile::down + own_step) * step; }; // its first term
  const auto term_of = [&](int i) { return step_of(i) + lane % 4 * run; };
  constexpr int depth = tc_few_rows_depth, tiles = Tile::column_tiles,
                count = Right::words > 0 ? Right::words : 1;
  constexpr bool in_lines = tc_few_rows_in_lines(Right::words);
  constexpr int slot = tc_few_rows_slot(Right::words);
  const unsigned ring =
      memory + static_cast<unsigned>(stages * stage_bytes + warp * depth * tiles * slot);
  const auto slot_at = [&](int i, int tile) {
    return ring + static_cast<unsigned>((i % depth * tiles + tile) * slot);
  };
  /// Where word `word` of a lane's run is. In lines: neighbours' words, of odd columns turned, so
  /// that two columns that are read at once meet no bank twice.
  const auto word_at = [&](int i, int tile, int half, int word) {
    if constexpr (in_lines) {
      const int own = lane % 4 * Right::words + word, column = lane / 4 + half * 8;
      return slot_at(i, tile) +
             static_cast<unsigned>(column * tc_product_line + (own ^ column % 2) * 16);
    } else {
      return slot_at(i, tile) +
             static_cast<unsigned>(((half * Right::words + word) * 32 + lane) * tc_product_word);
    }
  };
  typename Right::narrow next[tiles][2];
  const auto run_of = [&](int i) {
    const int term = term_of(i);
    return term < terms ? term / run : 0;
  };
  const auto fetch = [&](int i) {
    TC_UNROLL
    for (int tile = 0; tile < tiles; ++tile)
      TC_UNROLL
    for (int half = 0; half < 2; ++half)
      next[tile][half] = right.ahead(column_of(tile, half), run_of(i));
  };
  const auto bring = [&](int i) {
    if (i >= end)
      return;
    const void *at[count];
    if constexpr (in_lines) {
      const int word = lane % 8, term = step_of(i) + word / Right::words * run,
                n = term < terms ? term / run : 0;
      TC_UNROLL
      for (int k = 0; k < tiles * 4; ++k) { // four columns at once
        const int line = k % 4 * 4 + lane / 8, wanted = own_column - lane / 4 + k / 4 * 16 + line;
        right.places(wanted < columns ? wanted : columns - 1, n, at);
        tc_async_copy(slot_at(i, k / 4) +
                          static_cast<unsigned>(line * tc_product_line + (word ^ line % 2) * 16),
                      count > 1 && word % 2 != 0 ? at[count - 1] : at[0], true);
      }
    } else {
      TC_UNROLL
      for (int k = 0; k < tiles * 2; ++k) {
        right.places(column_of(k / 2, k % 2), run_of(i), at);
        TC_UNROLL
        for (int word = 0; word < Right::words; ++word)
          tc_async_copy(word_at(i, k / 2, k % 2, word), at[word], true);
      }
    }
  };
  const auto stage_at = [&](int i) {
    return memory + static_cast<unsigned>(i % stages * stage_bytes);
  };
  // Of stages, behind the weights.
  const auto barrier_at = [&](int i) {
    return memory +
           static_cast<unsigned>(stages * stage_bytes +
                                 depth * tiles * 2 * Right::words * tc_few_rows_threads * 16 +
                                 i % stages * 8);
  };
  const auto bring_left = [&](int i) {
    const int first = (begin + i * turns) * Tile::down * step;
    if (begin + i * turns < end)
      tc_few_rows_bring<Tile, stage_terms>(left, stage_at(i), first_row, first, terms,
                                           barrier_at(i));
  };
  float sums[tiles][Tile::row_tiles][4] = {};
  for (int d = 0; d + 1 < depth; ++d) {
    bring(begin + d);
    tc_async_end_group();
  }
  if constexpr (Tile::single)
    tc_few_rows_end<Tile, stage_terms>(memory, begin * Tile::down * step, terms);
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (thread == 0) {
    if (!Tile::single)
      tc_bulk_prepare(left.map);
    for (int i = 0; i < stages; ++i)
      tc_barrier_init(barrier_at(i), 1);
    tc_barrier_fence_init();
  }
  __syncthreads();
  for (int i = 0; i < stages; ++i)
    bring_left(i);
#endif
  if (begin < end)
    fetch(begin);
  int turn = 0, number = 0; // of the stage that is read
  for (int i = begin; i < end; ++i) {
    __syncwarp(); // all lanes have read the step before
    bring(i + depth - 1);
    tc_async_end_group();
    if (turn == 0) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
      if (stages > 1 && number > 0) {
        __syncthreads(); // the stage before this one has been read
        bring_left(number + stages - 1);
      }
      tc_barrier_wait(barrier_at(number), static_cast<unsigned>(number / stages & 1));
#else
      __syncthreads();
      bring_left(number);
#endif
    }
    tc_async_wait<depth - 1>();
    __syncwarp();
    constexpr bool whole = Tile::terms % (Tile::down * step) == 0; // steps, of all warps
    const bool inside = whole || term_of(i) < terms;
    // The lane's row and the first word of its run; the words of a run are in one line.
    const int first =
        ((turn * Tile::down + own_step) * step + (Right::paired ? 0 : lane % 4 * run)) / 8;
    /// Pair k of the lane's, of the row that it reads.
    const auto pair_at = [&](int k, int row) {
      const int word = first + k;
      const unsigned line = Tile::single
                                ? static_cast<unsigned>(word * 16)
                                : static_cast<unsigned>(word / 8 * Tile::rows * tc_product_line +
                                                        row * tc_product_lines) +
                                      tc_swizzled(lane / 4, word % 8);
      return tc_shared_load_word(stage_at(number) + line + static_cast<unsigned>(lane % 4 * 4));
    };
    const unsigned from =
        stage_at(number) + (Tile::single
                                ? static_cast<unsigned>(first * 16)
                                : static_cast<unsigned>(first / 8 * Tile::rows * tc_product_line) +
                                      tc_swizzled(lane / 4, first % 8));
    TC_UNROLL
    for (int tile = 0; tile < tiles; ++tile) {
      unsigned factors[2][run / 2];
      TC_UNROLL
      for (int half = 0; half < 2; ++half)
        if (inside) {
          tc_operand_word words[count];
          TC_UNROLL
          for (int word = 0; word < Right::words; ++word)
            tc_shared_load(words[word].at, word_at(i, tile, half, word));
          right.factors(words, next[tile][half], column_of(tile, half), run_of(i), factors[half]);
        } else {
          TC_UNROLL
          for (int k = 0; k < run / 2; ++k)
            factors[half][k] = 0u;
        }
      if (tile + 1 == tiles && i + 1 < end)
        fetch(i + 1);
      TC_UNROLL
      for (int k = 0; k < run / 8; ++k) {
        const unsigned even[4] = {factors[0][4 * k], factors[1][4 * k], factors[0][4 * k + 1],
                                  factors[1][4 * k + 1]},
                       odd[4] = {factors[0][4 * k + 2], factors[1][4 * k + 2],
                                 factors[0][4 * k + 3], factors[1][4 * k + 3]};
        TC_UNROLL
        for (int row = 0; row < Tile::row_tiles; ++row) {
          unsigned b[4];
          if constexpr (Right::paired) {
            TC_UNROLL
            for (int j = 0; j < 4; ++j)
              b[j] = pair_at(4 * k + j, row);
          } else
            tc_shared_load(b, Tile::single ? from + static_cast<unsigned>(k * 16)
                                           : tc_swizzled_word(from, k) +
                                                 static_cast<unsigned>(row * tc_product_lines));
          tc_multiply(T{}, sums[tile][row], even, b[0], b[1]);
          tc_multiply(T{}, sums[tile][row], odd, b[2], b[3]);
        }
      }
    }
    if (++turn == turns) {
      turn = 0;
      ++number;
    }
  }
  tc_async_wait<0>();
  __syncthreads();
  // [warps that share the terms][rows][columns]
  constexpr int line = tc_few_rows_result_pitch(Tile::columns);
  float *results = reinterpret_cast<float *>(dynamic + (memory - tc_shared_address(dynamic)));
  TC_UNROLL
  for (int tile = 0; tile < Tile::column_tiles; ++tile)
    TC_UNROLL
  for (int row = 0; row < Tile::row_tiles; ++row)
    TC_UNROLL
  for (int k = 0; k < 4; ++k)
    results[(own_step * Tile::rows + row * 8 + lane % 4 * 2 + k % 2) * line + own_column -
            first_column + tile * 16 + k / 2 * 8] = sums[tile][row][k];
  __syncthreads();
  const auto add = [&](float4 &sum, const float4 &more) {
    sum.x += more.x, sum.y += more.y, sum.z += more.z, sum.w += more.w;
  };
  constexpr int fours = Tile::columns / 4;
  for (int i = thread; Tile::down > 1 && i < Tile::rows * fours; i += tc_few_rows_threads) {
    float *at = results + i / fours * line + i % fours * 4;
    float4 sum = *reinterpret_cast<float4 *>(at);
    TC_UNROLL
    for (int k = 1; k < Tile::down; ++k)
      add(sum, *reinterpret_cast<float4 *>(at + k * Tile::rows * line));
    *reinterpret_cast<float4 *>(at) = sum;
  }
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (splits > 1) {
    tc_cluster_arrive();
    tc_cluster_wait();
  } else {
    __syncthreads();
  }
#else
  __syncthreads();
#endif
  constexpr int runs = Tile::columns / 8;
  for (int i = thread * splits + rank; i < Tile::rows * runs; i += tc_few_rows_threads * splits) {
    const int row = i / runs, column = i % runs * 8;
    if (first_row + row >= rows || first_column + column >= columns)
      continue;
    const int at = row * line + column;
    float4 low = {0.0f, 0.0f, 0.0f, 0.0f}, high = low;
    TC_UNROLL
    for (int k = 0; k < splits; ++k) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
      if (splits > 1) {
        const unsigned there =
            tc_cluster_address(memory + static_cast<unsigned>(at) * 4, static_cast<unsigned>(k));
        add(low, tc_cluster_load(there));
        add(high, tc_cluster_load(there + 16));
        continue;
      }
#endif
      add(low, *reinterpret_cast<const float4 *>(results + at));
      add(high, *reinterpret_cast<const float4 *>(results + at + 4));
    }
    const float values[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
    if constexpr (Finish::run == 8) {
      finish(first_row + row, first_column + column, values);
    } else {
      for (int k = 0; k < 8 && first_column + column + k < columns; ++k) {
        const float single[1] = {values[k]};
        finish(first_row + row, first_column + column + k, single);
      }
    }
  }
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  if (splits > 1) { // others still read this block's sums
    tc_cluster_arrive_relaxed();
    tc_cluster_wait();
  }
#endif
}

#endif
