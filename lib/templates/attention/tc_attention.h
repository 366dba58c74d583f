// softmax(scale * query @ key^T + mask) @ value in one pass over keys and values, the scores never
// in memory (Dao et al., "FlashAttention-2"). Only kernels of attention include it.
//
// A block computes 128 rows of one head. On the device each warp holds 16 or 32 of them: products
// are 16 x 8 x 16 tensor core instructions that accumulate in f32, keys and values come through
// shared memory, the next ones while these are computed with. A row's largest score and sum are
// kept as the walk finds them. On the host the block's first thread computes the rows one by one.
#pragma once

#include "tc_attention_geometry.h"
#include "tc_tensor_core.h"

/// Element i of row `row` is at[batch * batch_stride + head * head_stride + row * row_stride + i].
template <class T> struct tc_rows {
  T *at;
  long long batch_stride, head_stride, row_stride;
};
template <class T> TC_FN T *tc_row(const tc_rows<T> &rows, int batch, int head, int row) {
  return rows.at + batch * rows.batch_stride + head * rows.head_stride + row * rows.row_stride;
}

struct tc_no_mask {
  static constexpr bool present = false, costly = false, computed = false, listed = false;
};
/// Added to the scores; of bool, false hides. So many elements of a row can be loaded at once, from
/// their multiples on: 1, 2, 4 or 8.
template <class M, int Run> struct tc_mask {
  static constexpr bool present = true, computed = false, listed = false;
  static constexpr bool costly = Run == 1 || sizeof(M) != 2; // in registers
  tc_rows<const M> rows;
  long long column_stride;
  /// Batches of batches: so many within, and the stride of those; batch_stride is of those outside.
  int within = 1;
  long long within_stride = 0;
};
/// The row of a mask.
template <class M, int Run>
TC_FN const M *tc_mask_row(const tc_mask<M, Run> &mask, int batch, int head, int row) {
  return tc_row(mask.rows, batch / mask.within, head, row) +
         batch % mask.within * mask.within_stride;
}
TC_FN float tc_mask_value(bool visible) { return visible ? 0.0f : -TC_INF; }
template <class M> TC_FN float tc_mask_value(M added) { return tc_get(added); }

/// Which blocks of columns count for a block of rows: how many, and their numbers.
struct tc_block_list {
  const int *counts;
  long long count_batch, count_head, count_row; // strides
  const int *places;
  long long batch_stride, head_stride, row_stride, stride;
};
/// What the structure of a kernel's functions starts with. It has changed(score, batch, head, row,
/// column), what becomes of a score, and seen(batch, head, row, column), whether it counts (Hides;
/// else all do). Lists of blocks, if BlockRows is not 0, leave out columns that nobody sees.
template <bool Hides, int BlockRows, int BlockColumns> struct tc_score_functions {
  static constexpr bool present = true, costly = true, computed = true, hides = Hides;
  /// The rows that a block of threads computes have one list.
  static constexpr bool listed = BlockRows > 0 && BlockRows % tc_attention_rows == 0;
  static constexpr int block_rows = BlockRows, block_columns = BlockColumns;
  tc_block_list in_part, whole; // blocks of which some elements are seen, and of which all are
};

/// What functions of scores call. On a device these are straight lines of few instructions: calls
/// and branches would keep matrix units waiting, a score at a time. A quotient is within 2 units in
/// the last place, one of a constant within 1.5.
#ifdef TC_DEVICE
TC_FN float tc_score_quotient(float x, float y) {
  const float scale = fabsf(y) > 0x1p126f ? 0.25f : 1.0f; // else __fdividef gives 0
  return __fdividef(x * scale, y * scale);
}
TC_FN float tc_score_part(float x, float constant) { return x * (1.0f / constant); }
#else
TC_FN float tc_score_quotient(float x, float y) { return x / y; }
TC_FN float tc_score_part(float x, float constant) { return x / constant; }
#endif

/// The steps of `Keys` columns that rows from `first` on walk over, before column `end`.
template <int Keys, class Mask, bool Listed = Mask::listed> struct tc_attention_steps {
  int count;
  template <class Problem>
  TC_MEMBER tc_attention_steps(const Problem &, int, int, int, int end)
      : count((end + Keys - 1) / Keys) {}
  TC_MEMBER int key(int step) const { return step * Keys; }
  TC_MEMBER bool is_whole(int) const { return false; } // whether all of its elements are seen
};
template <int Keys, class Mask> struct tc_attention_steps<Keys, Mask, true> {
  const int *in_part, *whole;
  long long part_stride, whole_stride;
  int parts, together, across, count; // blocks in part; steps a block; blocks of columns; steps
  template <class Problem>
  TC_MEMBER tc_attention_steps(const Problem &p, int batch, int head, int first, int end) {
    const int block = first / Mask::block_rows;
    const auto places = [&](const tc_block_list &list) {
      return list.places + batch * list.batch_stride + head * list.head_stride +
             block * list.row_stride;
    };
    const auto blocks = [&](const tc_block_list &list) {
      const int number =
          list.counts[batch * list.count_batch + head * list.count_head + block * list.count_row];
      return number < 0 ? 0 : number > across ? across : number;
    };
    in_part = places(p.mask.in_part);
    whole = places(p.mask.whole);
    part_stride = p.mask.in_part.stride;
    whole_stride = p.mask.whole.stride;
    // A block that holds all columns is as long as they are.
    together = ((Mask::block_columns < end ? Mask::block_columns : end) + Keys - 1) / Keys;
    across = (end - 1) / Mask::block_columns + 1;
    parts = blocks(p.mask.in_part);
    count = (parts + blocks(p.mask.whole)) * together;
  }
  /// Of a number that is no block's, columns that are not there.
  TC_MEMBER int key(int step) const {
    const int at = step / together;
    const int number = at < parts ? in_part[at * part_stride] : whole[(at - parts) * whole_stride];
    const int block = number < 0 || number > across ? across : number;
    return block * Mask::block_columns + step % together * Keys;
  }
  TC_MEMBER bool is_whole(int step) const { return step / together >= parts; }
};
/// Those of kernels whose steps have no more columns than a block, else all steps.
template <int Keys, class Mask> TC_FN constexpr bool tc_steps_by_lists() {
  if constexpr (Mask::listed)
    return Mask::block_columns % Keys == 0;
  else
    return false;
}

struct tc_tensor_map; // tc_pipeline.h

template <class T, class Mask> struct tc_attention_problem {
  tc_rows<const T> query, key, value;
  tc_rows<T> out;
  Mask mask;
  int rows, columns;  // queries, keys
  int heads, batches; // of queries
  int group;          // heads of queries that share a head of keys and values
  float scale;        // positive
  /// Logarithms of the sums of weights, [batches, heads, rows], for a backward pass; or null.
  float *sums = nullptr;
  /// Of queries, keys and values, where bulk copies bring them: elements of a row, rows, heads,
  /// batches.
  const tc_tensor_map *query_map, *key_map, *value_map;
};

template <class T, class Mask>
TC_FN float *tc_attention_sums(const tc_attention_problem<T, Mask> &p, int batch, int head) {
  return p.sums == nullptr ? nullptr
                           : p.sums + (static_cast<long long>(batch) * p.heads + head) * p.rows;
}

#ifndef TC_DEVICE

/// Keys or values of one place as `[i]` gives them.
template <int Depth, class T>
TC_FN const T *tc_operand_row(const tc_rows<const T> &rows, int batch, int head, int row) {
  return tc_row(rows, batch, head, row);
}
/// sums, over the columns of `steps`, of weights times values; weights are relative to
/// exp(largest). `keys`, `values`: what tc_operand_row finds rows of.
template <int Depth, class T, class Mask, class Steps, class Keys, class Values>
TC_FN void tc_attention_row(const tc_attention_problem<T, Mask> &p, const Keys &keys,
                            const Values &values, int batch, int head, int row, const Steps &steps,
                            float (&sums)[Depth], float &largest, float &total) {
  const T *query = tc_row(p.query, batch, head, row);
  float query_values[Depth];
  for (int i = 0; i < Depth; ++i) {
    query_values[i] = tc_get(query[i]);
    sums[i] = 0.0f;
  }
  largest = -TC_INF;
  total = 0.0f;
  for (int step = 0; step < steps.count; ++step) {
    const int column = steps.key(step);
    if (column >= p.columns)
      continue;
    const auto &key = tc_operand_row<Depth>(keys, batch, head / p.group, column);
    const auto &value = tc_operand_row<Depth>(values, batch, head / p.group, column);
    float score = 0.0f;
    for (int i = 0; i < Depth; ++i)
      score += query_values[i] * tc_get(key[i]);
    score *= p.scale;
    if constexpr (Mask::computed)
      score = steps.is_whole(step) || p.mask.seen(batch, head, row, column)
                  ? p.mask.changed(score, batch, head, row, column)
                  : -TC_INF;
    else if constexpr (Mask::present)
      score += tc_mask_value(tc_mask_row(p.mask, batch, head, row)[column * p.mask.column_stride]);
    if (score == -TC_INF)
      continue;
    if (score > largest) {
      const float smaller = __builtin_expf(largest - score);
      for (int i = 0; i < Depth; ++i)
        sums[i] *= smaller;
      total *= smaller;
      largest = score;
    }
    const float weight = __builtin_expf(score - largest);
    total += weight;
    for (int i = 0; i < Depth; ++i)
      sums[i] += weight * tc_get(value[i]);
  }
}

/// Rows first to first + 127, before `end`.
template <int Depth, bool Causal, class T, class Mask>
TC_FN void tc_attention_block(const tc_attention_problem<T, Mask> &p, int first, int end, int head,
                              int batch) {
  if (threadIdx.x != 0)
    return;
  for (int row = first; row < first + tc_attention_rows && row < end; ++row) {
    float sums[Depth], largest, total;
    const int visible = Causal && row + 1 < p.columns ? row + 1 : p.columns;
    const tc_attention_steps<1, Mask> steps(p, batch, head, first, visible);
    tc_attention_row<Depth>(p, p.key, p.value, batch, head, row, steps, sums, largest, total);
    if (float *saved = tc_attention_sums(p, batch, head))
      saved[row] = total == 0.0f ? -TC_INF : largest + __builtin_logf(total);
    T *out = tc_row(p.out, batch, head, row);
    for (int i = 0; i < Depth; ++i) // a row that sees nothing is zero
      tc_store(out + i, total == 0.0f ? 0.0f : sums[i] / total);
  }
}

#else

TC_FN float tc_fast_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

template <int Depth, class Mask> struct tc_attention_tiles {
  static constexpr int depth = tc_attention_depth(Depth);
  static constexpr bool wide = tc_attention_wide(Depth);
  static constexpr int keys = tc_attention_keys(Depth);
  static constexpr int row_tiles = tc_attention_rows_a_warp(Mask::costly) / 16; // of 16 rows
  static constexpr int threads = tc_attention_threads(Mask::costly);
  static constexpr int pitch = tc_attention_pitch(Depth);
  static constexpr int queries = tc_attention_rows * pitch, stage = keys * pitch;
};

/// Starts copying `Rows` rows from `first` on into shared memory, by a group of Tiles::threads
/// threads; what lies past `count` rows or
/// Depth elements is zero.
template <class Tiles, int Depth, int Rows, class T>
TC_FN void tc_copy_rows(unsigned short *shared, const tc_rows<const T> &from, int batch, int head,
                        int first, int count) {
  constexpr int words = Tiles::depth / 8;
  const T *base = tc_row(from, batch, head, 0);
  TC_UNROLL
  for (int k = 0; k < (Rows * words + Tiles::threads - 1) / Tiles::threads; ++k) {
    const int word = k * Tiles::threads + static_cast<int>(threadIdx.x) % Tiles::threads;
    if (Rows * words % Tiles::threads != 0 && word >= Rows * words)
      break;
    const int row = word / words, column = word % words * 8;
    const bool inside = first + row < count && column < Depth;
    const T *source = base + (inside ? (first + row) * from.row_stride + column : 0);
    tc_async_copy(tc_shared_address(shared + row * Tiles::pitch + column), source, inside);
  }
}

/// Scores of a step to start from, in the scores' own unit (before `scale`): the mask divided by
/// the scale, finite where it is finite. Lane l has rows l / 4 and l / 4 + 8 of each 16, whose
/// masks are `lines`, and columns l % 4 * 2 and the next of each 8.
template <int KeyTiles, class M, int Run, class T>
TC_FN void tc_start_rows(float (&scores)[KeyTiles][4],
                         const tc_attention_problem<T, tc_mask<M, Run>> &p,
                         const M *const (&lines)[2], int first_column) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const float inverse = 1.0f / p.scale;
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    const M *mask = lines[half];
    TC_UNROLL
    for (int n = 0; n < KeyTiles; ++n) {
      const int column = first_column + n * 8 + lane % 4 * 2;
      float added[2] = {0.0f, 0.0f};
      if constexpr (Run > 1) {
        if (column < p.columns) {
          const tc_vec<M, 2> pair = tc_load_vec<2>(mask + column);
          added[0] = tc_mask_value(pair.at[0]);
          added[1] = tc_mask_value(pair.at[1]);
        }
      } else {
        TC_UNROLL
        for (int j = 0; j < 2; ++j)
          if (column + j < p.columns)
            added[j] = tc_mask_value(mask[(column + j) * p.mask.column_stride]);
      }
      TC_UNROLL
      for (int j = 0; j < 2; ++j) {
        const float limit = 3.402823466e38f, start = added[j] * inverse;
        const bool finite = added[j] >= -limit && added[j] <= limit;
        scores[n][half * 2 + j] = finite ? fminf(fmaxf(start, -limit), limit) : start;
      }
    }
  }
}
template <int KeyTiles, class M, int Run, class T>
TC_FN void tc_start_scores(float (&scores)[KeyTiles][4],
                           const tc_attention_problem<T, tc_mask<M, Run>> &p, int batch, int head,
                           int row, int first_column) {
  const M *lines[2];
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int at = row + static_cast<int>(threadIdx.x) % 32 / 4 + half * 8;
    lines[half] = tc_mask_row(p.mask, batch, head, at < p.rows ? at : p.rows - 1);
  }
  tc_start_rows<KeyTiles>(scores, p, lines, first_column);
}
template <int KeyTiles, class T, class Mask>
TC_FN void tc_start_scores(float (&scores)[KeyTiles][4], const tc_attention_problem<T, Mask> &, int,
                           int, int, int) {
  TC_UNROLL
  for (int n = 0; n < KeyTiles; ++n)
    TC_UNROLL
  for (int j = 0; j < 4; ++j)
    scores[n][j] = 0.0f;
}

/// Calls f(n, j, row, column) for each score of a lane, its place within rows and columns.
template <int KeyTiles, class T, class Mask, class F>
TC_FN void tc_for_scores(const tc_attention_problem<T, Mask> &p, int row, int first_column, F f) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int n = 0; n < KeyTiles; ++n)
    TC_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int at = row + lane / 4 + j / 2 * 8, column = first_column + n * 8 + lane % 4 * 2 + j % 2;
    f(n, j, at < p.rows ? at : p.rows - 1, column < p.columns ? column : p.columns - 1);
  }
}
/// Which of a lane's scores are seen: bit 4 n + j.
template <int KeyTiles, class T, class Mask>
TC_FN unsigned tc_seen_scores(const tc_attention_problem<T, Mask> &p, int batch, int head, int row,
                              int first_column) {
  static_assert(KeyTiles <= 8, "they are the bits of a word");
  unsigned seen = 0;
  tc_for_scores<KeyTiles>(p, row, first_column, [&](int n, int j, int at, int column) {
    seen |= (p.mask.seen(batch, head, at, column) ? 1u : 0u) << (n * 4 + j);
  });
  return seen;
}
/// Scores as products become scores as they count.
template <int KeyTiles, class T, class Mask>
TC_FN void tc_change_scores(float (&scores)[KeyTiles][4], const tc_attention_problem<T, Mask> &p,
                            unsigned seen, int batch, int head, int row, int first_column) {
  tc_for_scores<KeyTiles>(p, row, first_column, [&](int n, int j, int at, int column) {
    scores[n][j] = (seen >> (n * 4 + j) & 1u) != 0
                       ? p.mask.changed(scores[n][j] * p.scale, batch, head, at, column)
                       : -TC_INF;
  });
}

/// To memory, elements `start` to `start` + 15 of a row that has `depth`: a thread has 2 of each 8
/// of them, `a` and `b`; neighbours trade, so that each stores 4 and a row's stores fill sectors.
/// By all threads of a warp, `inside` or not.
template <class T>
TC_FN void tc_store_traded(T *to, int start, bool inside, int depth, float a0, float a1, float b0,
                           float b1) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const bool odd = lane % 2 != 0;
  const unsigned low = tc_pack(T{}, a0, a1), high = tc_pack(T{}, b0, b1);
  const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
  const int column = start + (odd ? 8 : 0) + lane % 4 / 2 * 4;
  if (inside && column < depth)
    *reinterpret_cast<uint2 *>(to + column) = odd ? make_uint2(got, high) : make_uint2(low, got);
}

/// What a warp keeps of 16 rows.
template <int Depth> struct tc_attention_state {
  static constexpr int tiles = (Depth + 15) / 16 * 2; // of 8 columns
  float sums[tiles][4];                               // of weighted values
  float largest[2];                                   // scores, scaled to powers of two
  float totals[2];                                    // of weights: this lane's share
};

/// Hides columns past the end, and under Causal those after the row's own; `rows`: this lane's two.
template <bool Causal, int KeyTiles>
TC_FN void tc_hide(float (&scores)[KeyTiles][4], const int (&rows)[2], int first_column,
                   int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int n = 0; n < KeyTiles; ++n)
    TC_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int column = first_column + n * 8 + lane % 4 * 2 + j % 2;
    if (column >= columns || (Causal && column > rows[j / 2]))
      scores[n][j] = -TC_INF;
  }
}

/// Turns scores into weights against the new largest score, and scales what was summed before.
template <int Depth, int KeyTiles>
TC_FN void tc_weigh(float (&scores)[KeyTiles][4], tc_attention_state<Depth> &state, float scale) {
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    float largest = -TC_INF;
    TC_UNROLL
    for (int n = 0; n < KeyTiles; ++n)
      largest = fmaxf(largest, fmaxf(scores[n][half * 2], scores[n][half * 2 + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    largest = fmaxf(__fmul_rn(largest, scale), state.largest[half]);
    const float base = largest == -TC_INF ? 0.0f : largest;
    const float smaller = tc_fast_exp2(state.largest[half] - base);
    state.largest[half] = largest;
    float total = 0.0f;
    // Scores this low are masked ones of a row that sees nothing else. Equal ones must stay equal:
    // the difference of an exact product and a rounded one would be huge.
    if (base < -1e30f) {
      TC_UNROLL
      for (int n = 0; n < KeyTiles; ++n)
        TC_UNROLL
      for (int j = half * 2; j < half * 2 + 2; ++j) {
        scores[n][j] = tc_fast_exp2(__fmul_rn(scores[n][j], scale) - base);
        total += scores[n][j];
      }
    } else {
      TC_UNROLL
      for (int n = 0; n < KeyTiles; ++n)
        TC_UNROLL
      for (int j = half * 2; j < half * 2 + 2; ++j) {
        scores[n][j] = tc_fast_exp2(fmaf(scores[n][j], scale, -base));
        total += scores[n][j];
      }
    }
    state.totals[half] = state.totals[half] * smaller + total;
    TC_UNROLL
    for (int n = 0; n < tc_attention_state<Depth>::tiles; ++n) {
      state.sums[n][half * 2] *= smaller;
      state.sums[n][half * 2 + 1] *= smaller;
    }
  }
}

/// The logarithm of a sum of weights that are relative to the power of two `base`.
TC_FN float tc_log_of_sum(float base, float total) {
  return total == 0.0f ? -TC_INF : (base + __log2f(total)) * 0.6931471805599453f;
}

template <int Depth, class T>
TC_FN void tc_write_rows(tc_attention_state<Depth> &state, const tc_rows<T> &out, float *sums,
                         int batch, int head, int row, int rows) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    float total = state.totals[half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    const float factor = total == 0.0f ? 0.0f : 1.0f / total; // a row that sees nothing is zero
    const int at = row + lane / 4 + half * 8;
    if (at >= rows)
      continue;
    if (sums != nullptr && lane % 4 == 0)
      sums[at] = tc_log_of_sum(state.largest[half], total);
    T *to = tc_row(out, batch, head, at);
    TC_UNROLL
    for (int n = 0; n < tc_attention_state<Depth>::tiles; ++n) {
      const int column = n * 8 + lane % 4 * 2;
      if (n * 8 < Depth)
        *reinterpret_cast<unsigned *>(to + column) =
            tc_pack(T{}, state.sums[n][half * 2] * factor, state.sums[n][half * 2 + 1] * factor);
    }
  }
}

template <int Depth, bool Causal, class T, class Mask>
TC_FN void tc_attention_block(const tc_attention_problem<T, Mask> &p, int first, int last, int head,
                              int batch) {
  using tiles = tc_attention_tiles<Depth, Mask>;
  constexpr int key_tiles = tiles::keys / 8, steps_of_depth = tiles::depth / 16;
  TC_DYN_SMEM(unsigned short, shared);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  if (static_cast<int>(threadIdx.x) >= tiles::threads)
    return; // planned for another device
  const int key_head = head / p.group;
  const int warp_row = warp * 16 * tiles::row_tiles; // in the block

  tc_copy_rows<tiles, Depth, tc_attention_rows>(shared, p.query, batch, head, first, p.rows);
  tc_async_end_group();
  tc_async_wait<0>();
  __syncthreads();
  const unsigned short *own_queries =
      shared + (warp_row + lane % 16) * tiles::pitch + lane / 16 * 8;
  unsigned short *stages = shared + (tiles::wide ? tiles::queries : 0);
  unsigned query[tiles::row_tiles][tiles::wide ? 1 : steps_of_depth][4];
  if constexpr (!tiles::wide) {
    TC_UNROLL
    for (int m = 0; m < tiles::row_tiles; ++m)
      TC_UNROLL
    for (int k = 0; k < steps_of_depth; ++k)
      tc_load_matrices<false>(query[m][k],
                              tc_shared_address(own_queries + m * 16 * tiles::pitch + k * 16));
    __syncthreads();
  }

  tc_attention_state<Depth> state[tiles::row_tiles];
  TC_UNROLL
  for (int m = 0; m < tiles::row_tiles; ++m) {
    TC_UNROLL
    for (int n = 0; n < tiles::depth / 8; ++n)
      TC_UNROLL
    for (int j = 0; j < 4; ++j)
      state[m].sums[n][j] = 0.0f;
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      state[m].largest[half] = -TC_INF;
      state[m].totals[half] = 0.0f;
    }
  }

  const int end =
      Causal && first + tc_attention_rows < p.columns ? first + tc_attention_rows : p.columns;
  const tc_attention_steps<tiles::keys, Mask, tc_steps_by_lists<tiles::keys, Mask>()> walk(
      p, batch, head, first, end);
  const int steps = walk.count;
  const auto copy_step = [&](int step) {
    unsigned short *keys = stages + step % 2 * 2 * tiles::stage;
    tc_copy_rows<tiles, Depth, tiles::keys>(keys, p.key, batch, key_head, walk.key(step),
                                            p.columns);
    tc_copy_rows<tiles, Depth, tiles::keys>(keys + tiles::stage, p.value, batch, key_head,
                                            walk.key(step), p.columns);
    tc_async_end_group();
  };
  // Weights are powers of two; functions of scores have scaled them.
  const float scale = (Mask::computed ? 1.0f : p.scale) * 1.4426950408889634f;
  if (steps > 0)
    copy_step(0);
  for (int step = 0; step < steps; ++step) {
    const int first_column = walk.key(step);
    float scores[tiles::row_tiles][key_tiles][4];
    unsigned seen[tiles::row_tiles]; // by functions
    if (step + 1 < steps)
      copy_step(step + 1);
    TC_UNROLL
    for (int m = 0; m < tiles::row_tiles; ++m)
      tc_start_scores<key_tiles>(scores[m], p, batch, head, first + warp_row + m * 16,
                                 first_column);
    bool sees = !Causal || first_column <= first + warp_row + 16 * tiles::row_tiles - 1;
    if constexpr (Mask::computed) {
      unsigned any = 0;
      TC_UNROLL
      for (int m = 0; m < tiles::row_tiles; ++m) {
        seen[m] = ~0u;
        if constexpr (Mask::hides)
          if (!walk.is_whole(step))
            seen[m] =
                tc_seen_scores<key_tiles>(p, batch, head, first + warp_row + m * 16, first_column);
        any |= seen[m];
      }
      sees = __any_sync(0xffffffffu, any != 0);
    } else if constexpr (Mask::present) { // nobody computes what no row of the warp sees
      bool visible = false;
      TC_UNROLL
      for (int m = 0; m < tiles::row_tiles; ++m)
        TC_UNROLL
      for (int n = 0; n < key_tiles; ++n)
        TC_UNROLL
      for (int j = 0; j < 4; ++j)
        visible = visible || !(scores[m][n][j] == -TC_INF);
      sees = sees && __any_sync(0xffffffffu, visible);
    }
    if (step + 1 < steps)
      tc_async_wait<1>();
    else
      tc_async_wait<0>();
    __syncthreads();
    const unsigned short *keys = stages + step % 2 * 2 * tiles::stage,
                         *values = keys + tiles::stage;
    if (sees) {
      TC_UNROLL
      for (int k = 0; k < steps_of_depth; ++k) {
        if constexpr (tiles::wide) {
          TC_UNROLL
          for (int m = 0; m < tiles::row_tiles; ++m)
            tc_load_matrices<false>(
                query[m][0], tc_shared_address(own_queries + m * 16 * tiles::pitch + k * 16));
        }
        TC_UNROLL
        for (int n = 0; n < key_tiles; n += 2) {
          unsigned b[4];
          tc_load_matrices<false>(
              b, tc_shared_address(keys + (n * 8 + lane / 16 * 8 + lane % 8) * tiles::pitch +
                                   k * 16 + lane / 8 % 2 * 8));
          TC_UNROLL
          for (int m = 0; m < tiles::row_tiles; ++m) {
            tc_multiply(T{}, scores[m][n], query[m][tiles::wide ? 0 : k], b[0], b[1]);
            tc_multiply(T{}, scores[m][n + 1], query[m][tiles::wide ? 0 : k], b[2], b[3]);
          }
        }
      }
      TC_UNROLL
      for (int m = 0; m < tiles::row_tiles; ++m) {
        const int row = first + warp_row + m * 16;
        if constexpr (Mask::computed)
          tc_change_scores<key_tiles>(scores[m], p, seen[m], batch, head, row, first_column);
        if (first_column + tiles::keys > p.columns ||
            (Causal && first_column + tiles::keys > row + 1))
          tc_hide<Causal>(scores[m], {row + lane / 4, row + lane / 4 + 8}, first_column, p.columns);
        tc_weigh<Depth>(scores[m], state[m], scale);
      }
      TC_UNROLL
      for (int k = 0; k < key_tiles / 2; ++k) {
        unsigned weights[tiles::row_tiles][4];
        TC_UNROLL
        for (int m = 0; m < tiles::row_tiles; ++m)
          TC_UNROLL
        for (int i = 0; i < 4; ++i)
          weights[m][i] = tc_pack(T{}, scores[m][2 * k + i / 2][i % 2 * 2],
                                  scores[m][2 * k + i / 2][i % 2 * 2 + 1]);
        TC_UNROLL
        for (int n = 0; n < tiles::depth / 8; n += 2) {
          unsigned b[4];
          tc_load_matrices<true>(
              b, tc_shared_address(values + (k * 16 + lane / 8 % 2 * 8 + lane % 8) * tiles::pitch +
                                   n * 8 + lane / 16 * 8));
          TC_UNROLL
          for (int m = 0; m < tiles::row_tiles; ++m) {
            tc_multiply(T{}, state[m].sums[n], weights[m], b[0], b[1]);
            tc_multiply(T{}, state[m].sums[n + 1], weights[m], b[2], b[3]);
          }
        }
      }
    }
    __syncthreads();
  }
  TC_UNROLL
  for (int m = 0; m < tiles::row_tiles; ++m)
    tc_write_rows<Depth>(state[m], p.out, tc_attention_sums(p, batch, head), batch, head,
                         first + warp_row + m * 16, last);
}

#endif

template <int Depth, bool Causal, class T, class Mask>
TC_FN void tc_attention(const tc_attention_problem<T, Mask> &p) {
  // Under Causal the last rows see most: they go first.
  const int block = static_cast<int>(Causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x);
  tc_attention_block<Depth, Causal>(p, block * tc_attention_rows, p.rows,
                                    static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z));
}
