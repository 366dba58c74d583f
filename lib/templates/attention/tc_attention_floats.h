// Attention of floats: the threads of a block multiply (tensor cores would round factors). A block
// computes the rows of one head step by step of keys, scores never in memory; 8 or 16 threads share
// a row, each has 8 or 4 rows. Keys, then their weights, and values come through shared memory, 16
// bytes an access; other blocks of the multiprocessor compute while one waits. On the host the
// block's first thread computes row after row.
#pragma once

#include "tc_attention.h"

#ifdef TC_DEVICE

template <int Depth, int Rows> struct tc_float_tiles {
  static constexpr int rows = Rows, keys = tc_float_keys, across = tc_float_across(Rows);
  static constexpr int threads = tc_float_threads(Rows);
  static constexpr int mine = tc_float_mine(Rows), some = keys / across; // rows, keys of a thread
  static constexpr int down = Rows / mine;
  static constexpr int padded = tc_float_padded(Depth, Rows), columns = padded / across;
  static constexpr int run = columns % 4 == 0 ? 4 : columns % 2 == 0 ? 2 : 1; // of columns
  static constexpr int pitch = tc_float_pitch(Depth, Rows),
                       weights_pitch = tc_float_weights_pitch(Rows);
};

/// What a thread keeps: its rows are `row` + i * down of the block, its keys `place` + j * across
/// of a step, its columns runs that are `across` runs apart. A warp has whole rows. Half of it
/// reads 2 rows and 8 keys, neighbours, or threads that are two apart, the same: then 16 threads
/// get their 16 bytes each at once, else 8.
template <class Tiles> struct tc_float_state {
  float sums[Tiles::mine][Tiles::columns], scores[Tiles::mine][Tiles::some];
  float base[Tiles::mine], totals[Tiles::mine];
  int row, place;
  TC_MEMBER tc_float_state() {
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    row = warp * (32 / Tiles::across) + lane % 2 + (Tiles::across == 8 ? lane / 16 * 2 : 0);
    place = lane / 2 % Tiles::across;
  }
  /// What the threads of a row have, together.
  template <class F> TC_FN float together(float value, F combine) {
    TC_UNROLL
    for (int across = 2; across < 2 * Tiles::across; across *= 2)
      value = combine(value, __shfl_xor_sync(0xffffffffu, value, across));
    return value;
  }
};

/// Starts copying `Lines` rows from `first` on; what lies past `count` rows or Depth elements is
/// zero.
template <class Tiles, int Depth, int Lines>
TC_FN void tc_float_bring(unsigned to, const float *from, long long stride, int first, int count) {
  constexpr int words = Tiles::padded / 4, all = Lines * words;
#pragma unroll 4 // all of them would keep registers that products want
  for (int k = 0; k < (all + Tiles::threads - 1) / Tiles::threads; ++k) {
    const int word = k * Tiles::threads + static_cast<int>(threadIdx.x);
    if (all % Tiles::threads != 0 && word >= all)
      break;
    const int line = word / words, column = word % words * 4;
    const bool inside = first + line < count && column < Depth;
    tc_async_copy(to + static_cast<unsigned>(line * Tiles::pitch + column) * 4u,
                  from + (inside ? (first + line) * stride + column : 0), inside);
  }
}

/// scores = queries @ keys.
template <class Tiles, int Depth>
TC_FN void tc_float_scores(tc_float_state<Tiles> &state, unsigned queries, unsigned keys) {
  constexpr unsigned line = Tiles::pitch * 4u;
  queries += static_cast<unsigned>(state.row) * line;
  keys += static_cast<unsigned>(state.place) * line;
  TC_UNROLL
  for (int i = 0; i < Tiles::mine; ++i)
    TC_UNROLL
  for (int j = 0; j < Tiles::some; ++j)
    state.scores[i][j] = 0.0f;
#pragma unroll 2
  for (int word = 0; word < Depth / 4; ++word) {
    float key[Tiles::some][4];
    TC_UNROLL
    for (int j = 0; j < Tiles::some; ++j)
      tc_shared_load(key[j], keys + j * (Tiles::across * line) + word * 16u);
    TC_UNROLL
    for (int i = 0; i < Tiles::mine; ++i) {
      float query[4];
      tc_shared_load(query, queries + i * (Tiles::down * line) + word * 16u);
      TC_UNROLL
      for (int j = 0; j < Tiles::some; ++j)
        TC_UNROLL
      for (int k = 0; k < 4; ++k)
        state.scores[i][j] = fmaf(query[k], key[j][k], state.scores[i][j]);
    }
  }
}

/// sums += weights @ values.
template <class Tiles>
TC_FN void tc_float_sums(tc_float_state<Tiles> &state, unsigned weights, unsigned values) {
  constexpr unsigned line = Tiles::pitch * 4u, weights_line = Tiles::weights_pitch * 4u;
  constexpr int run = Tiles::run;
  weights += static_cast<unsigned>(state.row) * weights_line;
  values += static_cast<unsigned>(state.place * run) * 4u;
#pragma unroll 2
  for (int four = 0; four < Tiles::keys / 4; ++four) {
    float weight[Tiles::mine][4];
    TC_UNROLL
    for (int i = 0; i < Tiles::mine; ++i)
      tc_shared_load(weight[i], weights + i * (Tiles::down * weights_line) + four * 16u);
    TC_UNROLL
    for (int k = 0; k < 4; ++k)
      TC_UNROLL
    for (int part = 0; part < Tiles::columns / run; ++part) {
      float value[run];
      tc_shared_load(value, values + (four * 4 + k) * line + part * (Tiles::across * run * 4u));
      TC_UNROLL
      for (int i = 0; i < Tiles::mine; ++i)
        TC_UNROLL
      for (int j = 0; j < run; ++j)
        state.sums[i][part * run + j] = fmaf(weight[i][k], value[j], state.sums[i][part * run + j]);
    }
  }
}

/// Scores as they count, in powers of e: scaled, with what is added; -inf where a key is hidden.
template <class Tiles, bool Causal, class Mask>
TC_FN void tc_float_mask(tc_float_state<Tiles> &state, const tc_attention_problem<float, Mask> &p,
                         int batch, int head, int first, int first_key) {
  const bool inside = first_key + Tiles::keys <= p.columns;
  TC_UNROLL
  for (int i = 0; i < Tiles::mine; ++i) {
    const int row = first + state.row + i * Tiles::down;
    TC_UNROLL
    for (int j = 0; j < Tiles::some; ++j) {
      const int key = first_key + state.place + j * Tiles::across;
      const bool seen = (inside || key < p.columns) && (!Causal || key <= row);
      float &score = state.scores[i][j];
      if constexpr (Mask::present) {
        float added = -TC_INF;
        if (seen && row < p.rows)
          added = tc_mask_value(tc_mask_row(p.mask, batch, head, row)[key * p.mask.column_stride]);
        score = fmaf(score, p.scale, added);
      } else {
        score = seen ? score * p.scale : -TC_INF;
      }
    }
  }
}

/// Scores become weights, which go to shared memory; earlier sums shrink by what the largest score
/// has grown.
template <class Tiles> TC_FN void tc_float_weigh(tc_float_state<Tiles> &state, unsigned weights) {
  constexpr float log2_e = 1.4426950408889634f;
  TC_UNROLL
  for (int i = 0; i < Tiles::mine; ++i) {
    float largest = state.scores[i][0];
    TC_UNROLL
    for (int j = 1; j < Tiles::some; ++j)
      largest = fmaxf(largest, state.scores[i][j]);
    largest =
        fmaxf(state.together(largest, [](float a, float b) { return fmaxf(a, b); }), state.base[i]);
    const float base = largest == -TC_INF ? 0.0f : largest;
    const float smaller = tc_fast_exp2((state.base[i] - base) * log2_e);
    state.base[i] = largest;
    float total = 0.0f;
    TC_UNROLL
    for (int j = 0; j < Tiles::some; ++j) {
      const float weight = tc_fast_exp2((state.scores[i][j] - base) * log2_e);
      total += weight;
      const int at =
          (state.row + i * Tiles::down) * Tiles::weights_pitch + state.place + j * Tiles::across;
      tc_shared_store(weights + static_cast<unsigned>(at) * 4u, tc_float_bits(weight));
    }
    state.totals[i] = state.totals[i] * smaller + total;
    TC_UNROLL
    for (int j = 0; j < Tiles::columns; ++j)
      state.sums[i][j] *= smaller;
  }
}

template <class Tiles, int Depth, class Mask>
TC_FN void tc_float_store(const tc_float_state<Tiles> &state,
                          const tc_attention_problem<float, Mask> &p, int batch, int head,
                          int first) {
  TC_UNROLL
  for (int i = 0; i < Tiles::mine; ++i) {
    const float total = state.together(state.totals[i], [](float a, float b) { return a + b; });
    const int row = first + state.row + i * Tiles::down;
    if (row >= p.rows)
      continue;
    const float factor = total == 0.0f ? 0.0f : 1.0f / total; // a row that sees nothing is zero
    if (float *sums = tc_attention_sums(p, batch, head))
      if (state.place == 0)
        sums[row] = total == 0.0f ? -TC_INF : state.base[i] + logf(total);
    float *to = tc_row(p.out, batch, head, row);
    TC_UNROLL
    for (int part = 0; part < Tiles::columns / Tiles::run; ++part) {
      const int column = (part * Tiles::across + state.place) * Tiles::run;
      tc_vec<float, Tiles::run> results;
      TC_UNROLL
      for (int j = 0; j < Tiles::run; ++j)
        results.at[j] = state.sums[i][part * Tiles::run + j] * factor;
      if (column < Depth)
        *reinterpret_cast<tc_vec<float, Tiles::run> *>(to + column) = results;
    }
  }
}

#endif

/// The rows of this block: blockIdx.x counts `Rows`, y heads, z batches.
template <int Depth, int Rows, bool Causal, class Mask>
TC_FN void tc_attention_floats(const tc_attention_problem<float, Mask> &p) {
  const int head = static_cast<int>(blockIdx.y), batch = static_cast<int>(blockIdx.z);
  // Under Causal blocks with long rows start first.
  const int block = static_cast<int>(Causal ? gridDim.x - 1 - blockIdx.x : blockIdx.x),
            first = block * Rows;
#ifndef TC_DEVICE
  const int end = first + Rows < p.rows ? first + Rows : p.rows;
  tc_attention_block<Depth, Causal>(p, first, end, head, batch);
#else
  using tiles = tc_float_tiles<Depth, Rows>;
  TC_DYN_SMEM(unsigned char, shared);
  const unsigned queries = tc_shared_address(shared),
                 keys = queries + tiles::rows * tiles::pitch * 4u,
                 values = keys + tc_float_key_elements(Depth, Rows) * 4u;
  const int key_head = head / p.group;
  const int end = Causal && first + Rows < p.columns ? first + Rows : p.columns;
  const auto bring = [&](int step) {
    const int column = step * tiles::keys;
    if (column < end) {
      tc_float_bring<tiles, Depth, tiles::keys>(keys, tc_row(p.key, batch, key_head, 0),
                                                p.key.row_stride, column, p.columns);
      tc_async_end_group();
      tc_float_bring<tiles, Depth, tiles::keys>(values, tc_row(p.value, batch, key_head, 0),
                                                p.value.row_stride, column, p.columns);
    }
    tc_async_end_group();
  };
  tc_float_state<tiles> state;
  TC_UNROLL
  for (int i = 0; i < tiles::mine; ++i) {
    state.base[i] = -TC_INF;
    state.totals[i] = 0.0f;
    TC_UNROLL
    for (int j = 0; j < tiles::columns; ++j)
      state.sums[i][j] = 0.0f;
  }
  tc_float_bring<tiles, Depth, tiles::rows>(queries, tc_row(p.query, batch, head, 0),
                                            p.query.row_stride, first, p.rows);
  bring(0);
  for (int step = 0; step * tiles::keys < end; ++step) {
    tc_async_wait<1>(); // all but the values
    __syncthreads();
    tc_float_scores<tiles, Depth>(state, queries, keys);
    tc_float_mask<tiles, Causal>(state, p, batch, head, first, step * tiles::keys);
    __syncthreads(); // weights take the place of the keys
    tc_float_weigh(state, keys);
    tc_async_wait<0>();
    __syncthreads();
    tc_float_sums(state, keys, values);
    __syncthreads();
    bring(step + 1);
  }
  tc_float_store<tiles, Depth>(state, p, batch, head, first);
#endif
}
