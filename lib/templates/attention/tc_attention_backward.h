// What comes to queries, keys and values of attention from what came to its results, with the
// weights computed again from the logarithms of their sums that the forward pass saved: nothing of
// the size of the scores is ever in memory (Dao et al., "FlashAttention-2").
//
// Two kernels, which differ in whose rows a block holds. `Keys`: a block holds keys and values and
// walks over the queries of all heads that share them; else it holds queries and walks over keys.
// Either way each sum is of one block and has one order. With own rows a, b (queries and what came
// to results; or keys and values) and the other side's rows c, d, a step is
//     scores = a @ c^T, passed = b @ d^T, weights = exp(scale * scores + mask - sums),
//     sums of a += weights * (passed - shares) @ c, sums of b += weights @ d (keys only),
// so that what is multiplied second is the left operand in the registers that the first left it in.
#pragma once

#include "tc_attention.h"
#include "tc_attention_backward_geometry.h"

/// The mask's element type where there is none.
struct tc_unmasked {};
template <class M> struct tc_is_mask { static constexpr bool value = true; };
template <> struct tc_is_mask<tc_unmasked> { static constexpr bool value = false; };

template <class T, class M> struct tc_backward_problem {
  tc_rows<const T> query, key, value, above; // above: what came to results, by query
  tc_rows<const M> mask;
  long long mask_column;
  /// [batch, heads, rows]: logarithms of the sums of weights, and what came to a result times it.
  const float *sums, *shares;
  int rows, columns, heads, group; // queries, keys, heads of queries, those that share keys
  float scale;
  long long saved_rows; // of a head, in sums and shares

  static constexpr bool masked = tc_is_mask<M>::value;
  TC_MEMBER long long saved(int batch, int head, int row) const {
    return (static_cast<long long>(batch) * heads + head) * saved_rows + row;
  }
  /// What a mask adds to a score.
  TC_MEMBER float added(int batch, int head, int row, int column) const {
    if constexpr (masked)
      return tc_mask_value(tc_row(mask, batch, head, row)[column * mask_column]);
    else
      return 0.0f;
  }
  /// Of a row that sees nothing, and past the last one: no weight is left.
  TC_MEMBER float sum_at(int batch, int head, int row) const {
    if (row >= rows)
      return TC_INF;
    const float sum = sums[saved(batch, head, row)];
    return sum == -TC_INF ? TC_INF : sum;
  }
  TC_MEMBER float share_at(int batch, int head, int row) const {
    return row < rows ? shares[saved(batch, head, row)] : 0.0f;
  }
};

#ifndef TC_DEVICE

template <int Depth, class T> TC_FN float tc_backward_product(const T *a, const T *b) {
  float sum = 0.0f;
  for (int i = 0; i < Depth; ++i)
    sum += tc_get(a[i]) * tc_get(b[i]);
  return sum;
}
/// What query `row` and key `column` have to do with each other: the weight, and what came to the
/// score.
template <int Depth, class T, class M>
TC_FN void tc_backward_pair(const tc_backward_problem<T, M> &p, int batch, int head, int row,
                            int column, float &weight, float &passed) {
  const int key_head = head / p.group;
  const float score = tc_backward_product<Depth>(tc_row(p.query, batch, head, row),
                                                 tc_row(p.key, batch, key_head, column)) *
                          p.scale +
                      p.added(batch, head, row, column);
  weight = __builtin_expf(score - p.sum_at(batch, head, row));
  if (score == -TC_INF)
    weight = 0.0f;
  passed = weight * (tc_backward_product<Depth>(tc_row(p.above, batch, head, row),
                                                tc_row(p.value, batch, key_head, column)) -
                     p.share_at(batch, head, row));
}
template <int Depth, class T> TC_FN void tc_backward_add(float *sums, float factor, const T *row) {
  for (int i = 0; i < Depth; ++i)
    sums[i] += factor * tc_get(row[i]);
}

/// Rows first to first + tc_backward_rows - 1 of a head, of keys with `Keys`.
template <int Depth, bool Keys, bool Causal, class T, class M>
TC_FN void tc_backward_block(const tc_backward_problem<T, M> &p, const tc_rows<T> &own,
                             const tc_rows<T> &other, int first, int head, int batch) {
  if (threadIdx.x != 0)
    return;
  const int count = Keys ? p.columns : p.rows;
  for (int at = first;
       at < first + tc_backward_rows(Depth, Keys, tc_is_mask<M>::value) && at < count; ++at) {
    float sums[Depth] = {}, values[Depth] = {}, weight, passed;
    if constexpr (Keys) {
      for (int query_head = head * p.group; query_head < (head + 1) * p.group; ++query_head)
        for (int row = Causal ? at : 0; row < p.rows; ++row) {
          tc_backward_pair<Depth>(p, batch, query_head, row, at, weight, passed);
          tc_backward_add<Depth>(sums, passed, tc_row(p.query, batch, query_head, row));
          tc_backward_add<Depth>(values, weight, tc_row(p.above, batch, query_head, row));
        }
    } else {
      for (int column = 0; column < (Causal && at < p.columns ? at + 1 : p.columns); ++column) {
        tc_backward_pair<Depth>(p, batch, head, at, column, weight, passed);
        tc_backward_add<Depth>(sums, passed, tc_row(p.key, batch, head / p.group, column));
      }
    }
    for (int i = 0; i < Depth; ++i)
      tc_store(tc_row(own, batch, head, at) + i, sums[i] * p.scale);
    if constexpr (Keys)
      for (int i = 0; i < Depth; ++i)
        tc_store(tc_row(other, batch, head, at) + i, values[i]);
  }
}

#else

template <int Depth, bool Keys, bool Masked> struct tc_backward_shape {
  static constexpr int depth = tc_attention_depth(Depth);
  static constexpr int pitch = tc_attention_pitch(Depth);
  static constexpr int threads = tc_backward_threads;
  static constexpr int tiles = tc_backward_tiles(Depth, Keys, Masked);
  static constexpr int rows = tc_backward_rows(Depth, Keys, Masked);
  static constexpr int step = tc_backward_step;
  static constexpr int operand = rows * pitch, stage = step * pitch;
  static constexpr int saved = Keys ? step : rows; // queries whose sums and shares lie together
  /// Own rows fit the registers: shared memory is read for the other side alone.
  static constexpr bool holds = !Keys && !Masked && !tc_attention_wide(Depth);
};

/// Starts copying the rows of a step from `first` on: as tc_copy_rows, with one pointer that walks
/// where rows are shared out evenly, since registers are few.
template <class Shape, int Depth, class T>
TC_FN void tc_backward_copy(unsigned short *to, const tc_rows<const T> &from, int batch, int head,
                            int first, int count) {
  constexpr int words = Shape::depth / 8, at_once = Shape::threads / words;
  if constexpr (Shape::threads % words != 0 || Shape::step % at_once != 0) {
    tc_copy_rows<Shape, Depth, Shape::step>(to, from, batch, head, first, count);
  } else {
    const int line = static_cast<int>(threadIdx.x) / words,
              column = static_cast<int>(threadIdx.x) % words * 8;
    const T *source = tc_row(from, batch, head, first + line) + column;
    const long long stride = at_once * from.row_stride;
    const int left = column < Depth ? count - first - line : 0;
    const unsigned place = tc_shared_address(to + line * Shape::pitch + column);
    TC_UNROLL
    for (int k = 0; k < Shape::step / at_once; ++k) {
      tc_async_copy(place + k * at_once * Shape::pitch * 2, source, left > k * at_once);
      source += stride;
    }
  }
}

/// What a warp has of its rows, 16 each.
template <class Shape, bool Keys> struct tc_backward_state {
  static constexpr int held = Shape::holds ? Shape::depth / 16 : 1;
  unsigned first[Shape::tiles][held][4], second[Shape::tiles][held][4]; // own rows of both tensors
  float sums[Shape::tiles][Shape::depth / 8][4];
  float values[Shape::tiles][Keys ? Shape::depth / 8 : 1][4];
  float scores[Shape::tiles][Shape::step / 8][4], passed[Shape::tiles][Shape::step / 8][4];
};
template <int A, int B> TC_FN void tc_clear(float (&x)[A][B][4]) {
  TC_UNROLL
  for (int a = 0; a < A; ++a)
    TC_UNROLL
  for (int b = 0; b < B; ++b)
    TC_UNROLL
  for (int j = 0; j < 4; ++j)
    x[a][b][j] = 0.0f;
}

/// 16 elements of depth of own rows into registers; `from`: of the lane.
template <class Shape, int Held>
TC_FN void tc_backward_load(unsigned (&own)[Shape::tiles][Held][4], int held,
                            const unsigned short *from) {
  TC_UNROLL
  for (int m = 0; m < Shape::tiles; ++m)
    tc_load_matrices<false>(own[m][held], tc_shared_address(from + m * 16 * Shape::pitch));
}

/// to = own rows @ (rows of the step)^T, of 16 elements of depth; `from`: of the lane.
template <class Shape, class T, int Held>
TC_FN void tc_backward_multiply(float (&to)[Shape::tiles][Shape::step / 8][4],
                                const unsigned (&own)[Shape::tiles][Held][4], int held,
                                unsigned from) {
  TC_UNROLL
  for (int n = 0; n < Shape::step / 8; n += 2) {
    unsigned b[4];
    tc_load_matrices<false>(b, from + n * 8 * Shape::pitch * 2);
    TC_UNROLL
    for (int m = 0; m < Shape::tiles; ++m) {
      tc_multiply(T{}, to[m][n], own[m][held], b[0], b[1]);
      tc_multiply(T{}, to[m][n + 1], own[m][held], b[2], b[3]);
    }
  }
}
template <class Shape, class T, class State>
TC_FN void tc_backward_scores(State &state, const unsigned short *own,
                              const unsigned short *stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  tc_clear(state.scores);
  tc_clear(state.passed);
  const unsigned from =
      tc_shared_address(stage + (lane / 16 * 8 + lane % 8) * Shape::pitch + lane / 8 % 2 * 8);
  TC_UNROLL
  for (int k = 0; k < Shape::depth / 16; ++k) {
    const int held = Shape::holds ? k : 0;
    if constexpr (!Shape::holds)
      tc_backward_load<Shape>(state.first, 0, own + k * 16);
    tc_backward_multiply<Shape, T>(state.scores, state.first, held, from + k * 32);
    if constexpr (!Shape::holds)
      tc_backward_load<Shape>(state.second, 0, own + Shape::operand + k * 16);
    tc_backward_multiply<Shape, T>(state.passed, state.second, held,
                                   from + (Shape::stage + k * 16) * 2);
  }
}

/// Of tile m, scores become weights, and `passed` what came to the scores. `saved`: sums of the
/// step's queries, with Keys, else of the tile's; then shares. `at`, `with`: the first row of the
/// tile, and of the step.
template <class Shape, bool Keys, bool Causal, class State, class T, class M>
TC_FN void tc_backward_weigh(State &state, int m, const tc_backward_problem<T, M> &p,
                             const float *saved, int batch, int head, int at, int with) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  constexpr float powers = 1.4426950408889634f; // weights are powers of two
  TC_UNROLL
  for (int n = 0; n < Shape::step / 8; ++n)
    TC_UNROLL
  for (int j = 0; j < 4; ++j) {
    const int half = j / 2, place = n * 8 + lane % 4 * 2 + j % 2; // in the step
    const int own = at + lane / 4 + half * 8;
    float score = state.scores[m][n][j];
    if constexpr (Keys) {
      if (Causal && place < own - with)
        score = -TC_INF;
    } else {
      if (place >= (Causal && own < p.columns ? own + 1 : p.columns) - with)
        score = -TC_INF;
    }
    const int query = Keys ? place : lane / 4 + half * 8;
    const float sum = saved[query], share = saved[Shape::saved + query];
    float weight;
    if constexpr (tc_is_mask<M>::value) {
      const int row = Keys ? with + place : own, column = Keys ? own : with + place;
      const float mask =
          row < p.rows && column < p.columns ? p.added(batch, head, row, column) : 0.0f;
      weight = tc_fast_exp2((fmaf(score, p.scale, mask) - sum) * powers);
    } else {
      weight = tc_fast_exp2(fmaf(score, p.scale * powers, -sum * powers));
    }
    state.scores[m][n][j] = weight;
    state.passed[m][n][j] = weight * (state.passed[m][n][j] - share);
  }
}

/// to += from (over the rows of the step) @ rows of the step.
template <class Shape, class T>
TC_FN void tc_backward_sums(float (&to)[Shape::tiles][Shape::depth / 8][4],
                            const float (&from)[Shape::tiles][Shape::step / 8][4],
                            const unsigned short *stage) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const unsigned at =
      tc_shared_address(stage + (lane / 8 % 2 * 8 + lane % 8) * Shape::pitch + lane / 16 * 8);
  TC_UNROLL
  for (int k = 0; k < Shape::step / 16; ++k) {
    unsigned left[Shape::tiles][4];
    TC_UNROLL
    for (int m = 0; m < Shape::tiles; ++m)
      TC_UNROLL
    for (int i = 0; i < 4; ++i)
      left[m][i] =
          tc_pack(T{}, from[m][2 * k + i / 2][i % 2 * 2], from[m][2 * k + i / 2][i % 2 * 2 + 1]);
    TC_UNROLL
    for (int n = 0; n < Shape::depth / 8; n += 2) {
      unsigned b[4];
      tc_load_matrices<true>(b, at + (k * 16 * Shape::pitch + n * 8) * 2);
      TC_UNROLL
      for (int m = 0; m < Shape::tiles; ++m) {
        tc_multiply(T{}, to[m][n], left[m], b[0], b[1]);
        tc_multiply(T{}, to[m][n + 1], left[m], b[2], b[3]);
      }
    }
  }
}

template <int Depth, class T>
TC_FN void tc_backward_store(const float (*sums)[4], float scale, const tc_rows<T> &to, int batch,
                             int head, int first, int count) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int at = first + lane / 4 + half * 8;
    if (at >= count)
      continue;
    T *row = tc_row(to, batch, head, at);
    TC_UNROLL
    for (int n = 0; n < Depth / 8; ++n)
      *reinterpret_cast<unsigned *>(row + n * 8 + lane % 4 * 2) =
          tc_pack(T{}, sums[n][half * 2] * scale, sums[n][half * 2 + 1] * scale);
  }
}

template <int Depth, bool Keys, bool Causal, class T, class M>
TC_FN void tc_backward_block(const tc_backward_problem<T, M> &p, const tc_rows<T> &own,
                             const tc_rows<T> &other, int first, int head, int batch) {
  using shape = tc_backward_shape<Depth, Keys, tc_is_mask<M>::value>;
  TC_DYN_SMEM(unsigned short, shared);
  if (static_cast<int>(threadIdx.x) >= shape::threads)
    return; // planned for another device
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
  const int warp_row = warp * 16 * shape::tiles;
  const int key_head = Keys ? head : head / p.group;
  const int count = Keys ? p.columns : p.rows;
  unsigned short *stages = shared + 2 * shape::operand;
  float *saved = reinterpret_cast<float *>(stages + 4 * shape::stage);

  tc_copy_rows<shape, Depth, shape::rows>(shared, Keys ? p.key : p.query, batch, head, first,
                                          count);
  tc_copy_rows<shape, Depth, shape::rows>(shared + shape::operand, Keys ? p.value : p.above, batch,
                                          head, first, count);
  tc_async_end_group();

  // Steps of a head; with keys, of one head of the group after another.
  const int begin = Keys && Causal ? first / shape::step * shape::step : 0;
  const int end = Keys                                        ? p.rows
                  : Causal && first + shape::rows < p.columns ? first + shape::rows
                                                              : p.columns;
  const int last_head = Keys ? (head + 1) * p.group : head + 1;
  const auto copy_step = [&](int stage, int of, int from) {
    unsigned short *to = stages + stage * 2 * shape::stage;
    const int limit = Keys ? p.rows : p.columns, lender = Keys ? of : key_head;
    tc_backward_copy<shape, Depth>(to, Keys ? p.query : p.key, batch, lender, from, limit);
    tc_backward_copy<shape, Depth>(to + shape::stage, Keys ? p.above : p.value, batch, lender, from,
                                   limit);
    tc_async_end_group();
    if (Keys && static_cast<int>(threadIdx.x) < 2 * shape::step) {
      const int row = from + static_cast<int>(threadIdx.x) % shape::step;
      saved[stage * 2 * shape::step + static_cast<int>(threadIdx.x)] =
          static_cast<int>(threadIdx.x) < shape::step ? p.sum_at(batch, of, row)
                                                      : p.share_at(batch, of, row);
    }
  };
  int of = Keys ? head * p.group : head, with = begin, stage = 0;
  bool more = begin < end; // steps
  if (more)
    copy_step(stage, of, with);

  tc_backward_state<shape, Keys> state;
  tc_clear(state.sums);
  tc_clear(state.values);
  if (!Keys && static_cast<int>(threadIdx.x) < shape::rows) { // seen behind the next barrier
    const int row = static_cast<int>(threadIdx.x);
    saved[row] = p.sum_at(batch, head, first + row);
    saved[shape::saved + row] = p.share_at(batch, head, first + row);
  }
  const unsigned short *own_rows = shared + (warp_row + lane % 16) * shape::pitch + lane / 16 * 8;
  if constexpr (shape::holds) {
    if (more)
      tc_async_wait<1>();
    else
      tc_async_wait<0>();
    __syncthreads();
    TC_UNROLL
    for (int k = 0; k < shape::depth / 16; ++k) {
      tc_backward_load<shape>(state.first, k, own_rows + k * 16);
      tc_backward_load<shape>(state.second, k, own_rows + shape::operand + k * 16);
    }
  }

  while (more) {
    int next_of = of, next = with + shape::step;
    if (Keys && next >= end) {
      next = begin;
      ++next_of;
    }
    more = Keys ? next_of < last_head : next < end;
    if (more) {
      copy_step(stage ^ 1, next_of, next);
      tc_async_wait<1>();
    } else {
      tc_async_wait<0>();
    }
    __syncthreads();
    const unsigned short *rows = stages + stage * 2 * shape::stage;
    // Nobody computes what no row of the warp has to do with.
    const int warp_first = first + warp_row, warp_last = warp_first + 16 * shape::tiles - 1;
    if (warp_first < count &&
        !(Causal && (Keys ? with + shape::step <= warp_first : with > warp_last))) {
      tc_backward_scores<shape, T>(state, own_rows, rows);
      TC_UNROLL
      for (int m = 0; m < shape::tiles; ++m)
        tc_backward_weigh<shape, Keys, Causal>(
            state, m, p, saved + (Keys ? stage * 2 * shape::step : warp_row + m * 16), batch, of,
            warp_first + m * 16, with);
      tc_backward_sums<shape, T>(state.sums, state.passed, rows);
      if constexpr (Keys)
        tc_backward_sums<shape, T>(state.values, state.scores, rows + shape::stage);
    }
    __syncthreads();
    of = next_of;
    with = next;
    stage ^= 1;
  }
  TC_UNROLL
  for (int m = 0; m < shape::tiles; ++m) {
    const int at = first + warp_row + m * 16;
    tc_backward_store<Depth>(state.sums[m], p.scale, own, batch, head, at, count);
    if constexpr (Keys)
      tc_backward_store<Depth>(state.values[m], 1.0f, other, batch, head, at, count);
  }
}

#endif

/// A parameter from which no type is deduced: it may be a null pointer.
template <class T> struct tc_exactly { using type = T; };

/// `own`: what comes to queries, with Keys to keys; `other`: to values. Strides of batches, heads
/// and rows; those of the mask, of columns too. Alone: one thread computes all of it, else a block
/// the rows and head and batch of its place in the grid.
template <int Depth, bool Keys, bool Causal, bool Alone, class M, class T>
TC_FN void tc_attention_backward(
    T *own, typename tc_exactly<T>::type *other, const T *query, const T *key, const T *value,
    const T *above, const float *sums, const float *shares, const M *mask, long long own_batch,
    long long own_head, long long own_row, long long other_batch, long long other_head,
    long long other_row, long long query_batch, long long query_head, long long query_row,
    long long key_batch, long long key_head, long long key_row, long long value_batch,
    long long value_head, long long value_row, long long above_batch, long long above_head,
    long long above_row, long long mask_batch, long long mask_head, long long mask_row,
    long long mask_column, int rows, int columns, int batches, int heads, int group, float scale) {
  const tc_backward_problem<T, M> p = {{query, query_batch, query_head, query_row},
                                       {key, key_batch, key_head, key_row},
                                       {value, value_batch, value_head, value_row},
                                       {above, above_batch, above_head, above_row},
                                       {mask, mask_batch, mask_head, mask_row},
                                       mask_column,
                                       sums,
                                       shares,
                                       rows,
                                       columns,
                                       heads,
                                       group,
                                       scale,
                                       rows};
  const tc_rows<T> of_own = {own, own_batch, own_head, own_row},
                   of_other = {other, other_batch, other_head, other_row};
  constexpr int together = tc_backward_rows(Depth, Keys, tc_is_mask<M>::value);
  if constexpr (Alone) {
    for (int batch = 0; batch < batches; ++batch)
      for (int head = 0; head < (Keys ? heads / group : heads); ++head)
        for (int first = 0; first < (Keys ? columns : rows); first += together)
          tc_backward_block<Depth, Keys, Causal>(p, of_own, of_other, first, head, batch);
  } else {
    tc_backward_block<Depth, Keys, Causal>(
        p, of_own, of_other, static_cast<int>(blockIdx.x) * together, static_cast<int>(blockIdx.y),
        static_cast<int>(blockIdx.z));
  }
}
