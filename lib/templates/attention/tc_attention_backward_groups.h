// What comes to queries, keys and values of attention where wgmma is (sm_90a): one kernel of five
// products instead of two of seven (Shah et al., "FlashAttention-3"). A block holds 128 keys and
// values and walks over the queries of all heads that share them. Two groups of warps compute 64
// keys each, turned,
//     scores = keys @ queries^T, passed = values @ above^T, weights = exp(scale * scores - sums),
//     passed = weights * (passed - shares), of values += weights @ above, of keys += passed @
//     queries,
// so that what is multiplied second is the left operand in registers. What comes to queries is a
// sum over blocks: passed goes to shared memory, each group multiplies a part of queries with all
// keys of the block, and a third group, which also brings queries, adds the product to memory
// (float32, in the order in which blocks come: not the same bits in every run).
//
// Three kernels: tc_attention_backward_start finds the share of every query and clears what is
// added up, tc_attention_backward_groups is the one above, tc_attention_backward_round rounds what
// was added up. Where every run must have the same bits, tc_attention_backward_groups is two
// kernels of seven products: one leaves out what comes to queries, for which the other holds
// queries and walks over keys. On another device they compute what tc_attention_backward.h does.
#pragma once

#include "tc_attention_backward_bring.h"

#ifndef __CUDA_ARCH_FEAT_SM90_ALL

template <int Depth, tc_backward_form Form, bool Causal, class T>
TC_FN void tc_backward_by_groups(const tc_backward_group_problem<T> &p) {
  constexpr bool keys = Form != tc_backward_form::queries;
  constexpr int together = tc_backward_rows(Depth, keys, false);
  tc_backward_walk<Depth, Form, Causal> items(p);
  for (tc_attention_item item; items.next(p, item);)
    for (int first = 0; first < tc_backward_group_own; first += together)
      if (item.block * tc_backward_group_own + first < (keys ? p.columns : p.rows))
        tc_backward_block<Depth, keys, Causal>(
            p, p.own, p.other, item.block * tc_backward_group_own + first, item.head, item.batch);
}

#else

// ---- a group's work

/// What a thread keeps of its two rows, 8 apart: sums of what comes to keys and values, or to
/// queries alone; the product that is added to memory.
template <class Tiles> struct tc_backward_group_state {
  float sums[Tiles::depth / 2], other[Tiles::of_queries ? 1 : Tiles::depth / 2];
  float scores[Tiles::step / 2], passed[Tiles::step / 2];
  float gathered[32];
  unsigned weights[Tiles::step / 4], narrow[Tiles::step / 4]; // as operands: narrow passed
  float sum[2], share[2];                                     // of own queries
  int row;                                                    // the first of the two
};

template <class Tiles, int Depth, bool Causal, class T> struct tc_backward_group {
  using tiles = Tiles;
  const tc_backward_group_problem<T> &p;
  const tc_backward_places<tiles> &places;
  int group;
  tc_backward_group_state<tiles> state;
  tc_ring<tiles::stages> ring;
  unsigned piece_parity; // of its being free
  int turn;              // of the memory that `passed` goes to

  TC_FN void release(unsigned barrier) {
    if (threadIdx.x % 32 == 0)
      tc_barrier_arrive(barrier);
  }
  /// to = own rows of `own` @ (rows of the stage)^T, started.
  TC_MEMBER void start_square(float (&to)[tiles::step / 2], unsigned own, unsigned stage) const {
    const unsigned long long left = tc_wgmma_descriptor(own + static_cast<unsigned>(group) *
                                                                  (tc_group_rows * tc_group_line),
                                                        16),
                             right = tc_wgmma_descriptor(stage, 16);
    TC_UNROLL
    for (int k = 0; k < tiles::terms; ++k)
      tc_multiply_group<0, 0>(
          T{}, to, tc_wgmma_further(left, k / 4 * (tiles::own * tc_group_line) + k % 4 * 32),
          tc_wgmma_further(right, k / 4 * (tiles::step * tc_group_line) + k % 4 * 32),
          k == 0 ? 0 : 1);
    tc_wgmma_end_group();
  }
  /// sums += left @ rows of the stage, started.
  TC_MEMBER void start_sums(float (&sums)[tiles::depth / 2],
                            const unsigned (&left)[tiles::step / 4], unsigned stage) const {
    const unsigned long long first = tc_wgmma_descriptor(stage, tiles::step * tc_group_line);
    TC_UNROLL
    for (int k = 0; k < tiles::step / 16; ++k)
      tc_multiply_group_turned(T{}, sums, left + 4 * k,
                               tc_wgmma_further(first, k * 16 * tc_group_line));
    tc_wgmma_end_group();
  }
  /// What comes to 64 queries from all keys of the block, started: of deep queries 64 elements,
  /// else all of a half of the step's queries.
  TC_MEMBER void start_gathered() {
    const unsigned half = static_cast<unsigned>(group) * (tiles::own * tc_group_line);
    const unsigned long long left = tc_wgmma_descriptor(
                                 places.passed(turn) + (tiles::blocks == 1 ? half : 0), 16),
                             right = tc_wgmma_descriptor(
                                 places.own_first() + (tiles::blocks == 1 ? 0 : half), 16);
    TC_UNROLL
    for (int k = 0; k < tiles::own / 16; ++k)
      tc_multiply_group<1, 1>(T{}, state.gathered, tc_wgmma_further(left, k * 16 * tc_group_line),
                              tc_wgmma_further(right, k * 16 * tc_group_line), k == 0 ? 0 : 1);
    tc_wgmma_end_group();
  }

  /// work(n, numbers) for the two queries of each 8 that are a thread's; numbers saved at `saved`
  /// are loaded two steps ahead.
  template <class Work> TC_MEMBER void each_query(unsigned saved, const Work &work) const {
    saved += static_cast<unsigned>(threadIdx.x) % 4 * 8;
    float numbers[3][2];
    tc_shared_load(numbers[0], saved);
    tc_shared_load(numbers[1], saved + 32);
    TC_UNROLL
    for (int n = 0; n < tiles::step / 8; ++n) {
      if (n + 2 < tiles::step / 8)
        tc_shared_load(numbers[(n + 2) % 3], saved + (n + 2) * 32);
      work(n, numbers[n % 3]);
    }
  }
  TC_MEMBER bool hides(int first) const {
    const int own_first = state.row / tc_group_rows * tc_group_rows,
              own_last = own_first + tc_group_rows - 1;
    if constexpr (tiles::of_queries)
      return first + tiles::step > p.columns || (Causal && first + tiles::step - 1 > own_first);
    else
      return own_last >= p.columns || (Causal && first < own_last);
  }
  /// Scores become weights. `first`: the step's first row.
  TC_MEMBER void weigh(int first) {
    constexpr float powers = 1.4426950408889634f; // weights are powers of two
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const float scale = p.scale * powers;
    if (hides(first)) {
      TC_UNROLL
      for (int i = 0; i < tiles::step / 2; ++i) {
        const int own = state.row + i / 2 % 2 * 8, other = first + i / 4 * 8 + lane % 4 * 2 + i % 2,
                  key = tiles::of_queries ? other : own, query = tiles::of_queries ? own : other;
        if (key >= p.columns || (Causal && key > query))
          state.scores[i] = -TC_INF;
      }
    }
    if constexpr (tiles::of_queries) {
      TC_UNROLL
      for (int i = 0; i < tiles::step / 2; ++i)
        state.scores[i] = tc_fast_exp2(fmaf(state.scores[i], scale, -state.sum[i / 2 % 2]));
    } else {
      each_query(places.sums(ring.stage), [&](int n, const float(&sums)[2]) {
        TC_UNROLL
        for (int j = 0; j < 4; ++j)
          state.scores[4 * n + j] =
              tc_fast_exp2(fmaf(state.scores[4 * n + j], scale, -powers * sums[j % 2]));
      });
    }
  }
  /// What came to results becomes what came to scores; both are packed.
  TC_MEMBER void pass() {
    if constexpr (tiles::of_queries) {
      TC_UNROLL
      for (int i = 0; i < tiles::step / 2; i += 2) {
        const float share = state.share[i / 2 % 2];
        state.narrow[i / 2] = tc_pack(T{}, state.scores[i] * (state.passed[i] - share),
                                      state.scores[i + 1] * (state.passed[i + 1] - share));
      }
    } else {
      each_query(places.shares(ring.stage), [&](int n, const float(&shares)[2]) {
        TC_UNROLL
        for (int half = 0; half < 2; ++half) {
          const int i = 4 * n + half * 2;
          if constexpr (!tiles::early)
            state.weights[i / 2] = tc_pack(T{}, state.scores[i], state.scores[i + 1]);
          state.narrow[i / 2] = tc_pack(T{}, state.scores[i] * (state.passed[i] - shares[0]),
                                        state.scores[i + 1] * (state.passed[i + 1] - shares[1]));
        }
      });
    }
  }
  TC_MEMBER void pack_weights() {
    TC_UNROLL
    for (int i = 0; i < tiles::step / 4; ++i)
      state.weights[i] = tc_pack(T{}, state.scores[2 * i], state.scores[2 * i + 1]);
  }
  /// To shared memory: a line of 64 queries a key.
  TC_MEMBER void store_passed() const {
    const int lane = static_cast<int>(threadIdx.x) % 32,
              line = group * tc_group_rows + static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane / 4;
    const unsigned to = places.passed(turn) + static_cast<unsigned>(lane % 4) * 4;
    TC_UNROLL
    for (int i = 0; i < tiles::step / 4; ++i)
      tc_shared_store(to + i / 16 * (tiles::own * tc_group_line) +
                          tc_swizzled(line + i % 2 * 8, i / 2 % 8),
                      state.narrow[i]);
  }
  TC_MEMBER void hand_over() {
    tc_barrier_wait(places.piece_free(group), piece_parity);
    piece_parity ^= 1;
    const unsigned to = places.piece(group) + threadIdx.x % tc_group_threads * 16;
    TC_UNROLL
    for (int i = 0; i < 8; ++i)
      tc_shared_store(to + i * (tc_group_threads * 16), tc_float_bits(state.gathered[4 * i]),
                      tc_float_bits(state.gathered[4 * i + 1]),
                      tc_float_bits(state.gathered[4 * i + 2]),
                      tc_float_bits(state.gathered[4 * i + 3]));
    tc_bulk_see_stores();
    __syncwarp();
    release(places.piece_full(group));
  }

  TC_MEMBER void start_scores() {
    tc_barrier_wait(places.first_full(ring.stage), ring.parity);
    tc_wgmma_start();
    start_square(state.scores, places.own_first(), places.first(ring.stage));
  }
  /// A step whose scores have been started; those of the next one, if there are `more`, are started
  /// before anything of this one is waited for that shared memory or registers do not need.
  TC_MEMBER void step(int first, bool more) {
    const int stage = ring.stage;
    tc_barrier_wait(places.second_full(stage), ring.parity);
    tc_wgmma_wait<0>();
    tc_wgmma_hold(state.scores);
    tc_wgmma_start();
    start_square(state.passed, places.own_second(), places.second(stage));
    weigh(first);
    if constexpr (tiles::early) {
      pack_weights();
      tc_wgmma_start();
      start_sums(state.other, state.weights, places.second(stage));
      tc_wgmma_wait<1>();
    } else {
      tc_wgmma_wait<0>();
    }
    tc_wgmma_hold(state.passed);
    pass();
    if constexpr (!tiles::early && !tiles::of_queries) {
      tc_wgmma_start();
      start_sums(state.other, state.weights, places.second(stage));
    }
    tc_wgmma_start();
    start_sums(state.sums, state.narrow, places.first(stage));
    if constexpr (tiles::gathers) {
      store_passed();
      tc_wgmma_see_shared();
      tc_group_sync(1, 2 * tc_group_threads);
      tc_wgmma_start();
      start_gathered();
      tc_wgmma_wait<1>();
    } else {
      tc_wgmma_wait<0>();
    }
    tc_wgmma_hold(state.sums);
    if constexpr (!tiles::of_queries)
      tc_wgmma_hold(state.other);
    release(places.second_free(stage));
    release(places.first_free(stage));
    ring.next();
    if (more)
      tc_barrier_wait(places.first_full(ring.stage), ring.parity);
    tc_wgmma_start();
    start_square(state.scores, places.own_first(), places.first(ring.stage));
    if constexpr (tiles::gathers) {
      tc_wgmma_wait<1>();
      tc_wgmma_hold(state.gathered);
      hand_over();
      turn ^= 1;
    }
  }

  /// To memory.
  TC_MEMBER void store(const float (&sums)[tiles::depth / 2], float factor, const tc_rows<T> &rows,
                       int batch, int head) const {
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = state.row + half * 8, count = tiles::of_queries ? p.rows : p.columns;
      T *to = tc_row(rows, batch, head, row < count ? row : 0);
      TC_UNROLL
      for (int part = 0; part < tiles::depth / 16; ++part) {
        const int at = part * 8 + half * 2;
        tc_store_traded(to, part * 16, row < count, Depth, sums[at] * factor, sums[at + 1] * factor,
                        sums[at + 4] * factor, sums[at + 5] * factor);
      }
    }
  }

  TC_MEMBER void start_item(const tc_attention_item &item) {
    state.row = item.block * tiles::own + group * tc_group_rows +
                static_cast<int>(threadIdx.x) / 32 % 4 * 16 +
                static_cast<int>(threadIdx.x) % 32 / 4;
    TC_UNROLL
    for (int i = 0; i < tiles::depth / 2; ++i) {
      state.sums[i] = 0.0f;
      if constexpr (!tiles::of_queries)
        state.other[i] = 0.0f;
    }
    if constexpr (tiles::of_queries) {
      TC_UNROLL
      for (int half = 0; half < 2; ++half) { // rows past the end have places, too
        const long long saved = p.saved(item.batch, item.head, state.row + half * 8);
        state.sum[half] = p.sums[saved] * 1.4426950408889634f;
        state.share[half] = p.shares[saved];
      }
    }
  }
  TC_MEMBER void run() {
    tc_backward_walk<Depth, tiles::form, Causal> items(p);
    unsigned own_parity = 0;
    for (tc_attention_item item; items.next(p, item);) {
      const tc_backward_range<tiles, Causal> range(p, item);
      start_item(item);
      if (range.begin < range.end) {
        tc_barrier_wait(places.own_first_full(), own_parity);
        tc_barrier_wait(places.own_second_full(), own_parity);
        own_parity ^= 1;
        start_scores();
        for (int shared = tiles::of_queries ? 1 : p.group; shared > 0; --shared)
          for (int at = range.begin; at < range.end; at += tiles::step)
            step(at, shared > 1 || at + tiles::step < range.end);
        tc_wgmma_wait<0>();
        tc_wgmma_hold(state.scores);
        release(places.own_free());
      }
      store(state.sums, p.scale, p.own, item.batch, item.head);
      if constexpr (!tiles::of_queries)
        store(state.other, 1.0f, p.other, item.batch, item.head);
    }
  }
};

template <int Depth, tc_backward_form Form, bool Causal, class T>
TC_FN void tc_backward_by_groups(const tc_backward_group_problem<T> &p) {
  using tiles = tc_backward_group_tiles<Depth, Form>;
  TC_DYN_SMEM(unsigned char, shared);
  const tc_backward_places<tiles> places{(tc_shared_address(shared) + 1023u) & ~1023u};
  if (threadIdx.x == 0) {
    tc_bulk_prepare(p.query_map);
    tc_bulk_prepare(p.key_map);
    tc_bulk_prepare(p.value_map);
    tc_bulk_prepare(p.above_map);
    tc_backward_init(places);
  }
  __syncthreads();
  const int group = tc_of_warp(static_cast<int>(threadIdx.x) / tc_group_threads);
  if (group == 2) {
    tc_registers_give<tiles::bring_registers>();
    const int thread = static_cast<int>(threadIdx.x) % tc_group_threads;
    if (thread == 0)
      tc_backward_bring<tiles, Depth, Causal>(p, places);
    else if (tiles::gathers && (thread == 32 || thread == 64))
      tc_backward_gather<tiles, Depth, Causal>(p, places, thread / 32 - 1);
  } else {
    tc_registers_take<tiles::compute_registers>();
    tc_backward_group<tiles, Depth, Causal, T>{p, places, group, {}, {}, 1, 0}.run();
  }
}

#endif

/// Of every row of a head, filled up to whole steps: the logarithm of its sum of weights, infinite
/// where no weight is left, and its share; what is added up is cleared. A block: 128 rows.
template <int Depth, bool Gathers, bool Alone, class T>
TC_FN void tc_attention_backward_start(float *sums, float *shares, float *gathered, const T *above,
                                       const T *out, const float *saved, long long above_batch,
                                       long long above_head, long long above_row,
                                       long long out_batch, long long out_head, long long out_row,
                                       int rows, int batches, int heads) {
  constexpr int depth = tc_backward_group_depth(Depth), words = depth / 8;
  const tc_rows<const T> of_above = {above, above_batch, above_head, above_row},
                         of_out = {out, out_batch, out_head, out_row};
  const long long padded = tc_backward_group_rows(rows);
  const auto finish = [&](int batch, int head, long long row, float share) {
    const long long number = static_cast<long long>(batch) * heads + head;
    const float sum = row < rows ? saved[number * rows + row] : -TC_INF;
    sums[number * padded + row] = sum == -TC_INF ? TC_INF : sum;
    shares[number * padded + row] = share;
  };
  if constexpr (Alone) {
    for (int batch = 0; batch < batches; ++batch)
      for (int head = 0; head < heads; ++head)
        for (long long row = 0; row < padded; ++row) {
          float share = 0.0f;
          for (int i = 0; row < rows && i < Depth; ++i)
            share += tc_get(tc_row(of_above, batch, head, static_cast<int>(row))[i]) *
                     tc_get(tc_row(of_out, batch, head, static_cast<int>(row))[i]);
          finish(batch, head, row, share);
        }
  } else {
    const int head = static_cast<int>(blockIdx.y), batch = static_cast<int>(blockIdx.z),
              word = static_cast<int>(threadIdx.x) % words;
    TC_UNROLL
    for (int k = 0; k < words; ++k) {
      const int row = static_cast<int>(blockIdx.x) * 128 + k * (128 / words) +
                      static_cast<int>(threadIdx.x) / words;
      float share = 0.0f;
      if (row < rows && word * 8 < Depth) {
        const tc_vec<T, 8> a = tc_load_vec<8>(tc_row(of_above, batch, head, row) + word * 8),
                           b = tc_load_vec<8>(tc_row(of_out, batch, head, row) + word * 8);
        TC_UNROLL
        for (int i = 0; i < 8; ++i)
          share += tc_get(a.at[i]) * tc_get(b.at[i]);
      }
      TC_UNROLL
      for (int across = 1; across < words; across *= 2)
        share += tc_shfl_xor(share, across);
      if (word == 0)
        finish(batch, head, row, share);
      if constexpr (Gathers) {
        float *cleared =
            gathered + ((static_cast<long long>(batch) * heads + head) * padded + row) * depth;
        TC_UNROLL
        for (int i = 0; i < 2; ++i)
          *reinterpret_cast<tc_vec<float, 4> *>(cleared + (i * words + word) * 4) = {};
      }
    }
  }
}

/// By `Form`: what comes to keys (`own`) and values (`other`), and to `gathered`, which was
/// cleared; or to queries (`own`). `sums` and `shares` as tc_attention_backward_start leaves them.
template <int Depth, tc_backward_form Form, bool Causal, bool Alone, class T>
TC_FN void tc_attention_backward_groups(
    T *own, typename tc_exactly<T>::type *other, const T *query, const T *key, const T *value,
    const T *above, const float *sums, const float *shares, const float *gathered,
    const tc_tensor_map *query_map, const tc_tensor_map *key_map, const tc_tensor_map *value_map,
    const tc_tensor_map *above_map, long long own_batch, long long own_head, long long own_row,
    long long other_batch, long long other_head, long long other_row, long long query_batch,
    long long query_head, long long query_row, long long key_batch, long long key_head,
    long long key_row, long long value_batch, long long value_head, long long value_row,
    long long above_batch, long long above_head, long long above_row, int rows, int columns,
    int batches, int heads, int group, float scale) {
  const tc_backward_group_problem<T> p = {{{query, query_batch, query_head, query_row},
                                           {key, key_batch, key_head, key_row},
                                           {value, value_batch, value_head, value_row},
                                           {above, above_batch, above_head, above_row},
                                           {nullptr, 0, 0, 0},
                                           0,
                                           sums,
                                           shares,
                                           rows,
                                           columns,
                                           heads,
                                           group,
                                           scale,
                                           tc_backward_group_rows(rows)},
                                          {own, own_batch, own_head, own_row},
                                          {other, other_batch, other_head, other_row},
                                          const_cast<float *>(gathered),
                                          query_map,
                                          key_map,
                                          value_map,
                                          above_map,
                                          batches};
  if constexpr (Alone) {
    constexpr bool keys = Form != tc_backward_form::queries;
    constexpr int together = tc_backward_rows(Depth, keys, false);
    for (int batch = 0; batch < batches; ++batch)
      for (int head = 0; head < (keys ? heads / group : heads); ++head)
        for (int first = 0; first < (keys ? columns : rows); first += together)
          tc_backward_block<Depth, keys, Causal>(p, p.own, p.other, first, head, batch);
  } else {
    tc_backward_by_groups<Depth, Form, Causal>(p);
  }
}

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// 128 rows, from the order in which threads of tc_backward_group hold them.
template <int Depth, class T>
TC_FN void tc_backward_round(const float *from, float scale, const tc_rows<T> &own, int first,
                             int rows, int head, int batch) {
  using tiles = tc_backward_group_tiles<Depth, tc_backward_form::gathered>;
  const int thread = static_cast<int>(threadIdx.x), lane = thread % 32;
  TC_UNROLL
  for (int piece = 0; piece < 128 * tiles::depth / tc_backward_group_piece; ++piece) {
    tc_vec<float, 4> sums[8];
    TC_UNROLL
    for (int i = 0; i < 8; ++i)
      sums[i] = tc_load_vec<4>(from + piece * tc_backward_group_piece +
                               (i * tc_group_threads + thread) * 4);
    const int line = first + (tiles::blocks == 1 ? piece : piece / 2) * tc_group_rows +
                     thread / 32 * 16 + lane / 4,
              start = tiles::blocks == 1 ? 0 : piece % 2 * tc_group_block;
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int row = line + half * 8;
      T *to = tc_row(own, batch, head, row < rows ? row : 0);
      TC_UNROLL
      for (int part = 0; part < 4; ++part) {
        const float *a = sums[part * 2].at + half * 2, *b = sums[part * 2 + 1].at + half * 2;
        tc_store_traded(to, start + part * 16, row < rows, Depth, a[0] * scale, a[1] * scale,
                        b[0] * scale, b[1] * scale);
      }
    }
  }
}

#endif

/// What comes to queries: what was added up where tc_attention_backward_groups did, else computed
/// here.
template <int Depth, bool Causal, bool Alone, class T>
TC_FN void tc_attention_backward_round(
    T *own, const T *query, const T *key, const T *value, const T *above, const float *sums,
    const float *shares, const float *gathered, long long own_batch, long long own_head,
    long long own_row, long long query_batch, long long query_head, long long query_row,
    long long key_batch, long long key_head, long long key_row, long long value_batch,
    long long value_head, long long value_row, long long above_batch, long long above_head,
    long long above_row, int rows, int columns, int batches, int heads, int group, float scale) {
  const tc_rows<T> of_own = {own, own_batch, own_head, own_row};
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  static_assert(tc_backward_rows(Depth, false, false) == 128, "as tc_backward_round has it");
  const int first = static_cast<int>(blockIdx.x) * 128, head = static_cast<int>(blockIdx.y),
            batch = static_cast<int>(blockIdx.z);
  const long long at =
      (static_cast<long long>(batch) * heads + head) * tc_backward_group_rows(rows);
  tc_backward_round<Depth>(gathered + (at + first) * tc_backward_group_depth(Depth), scale, of_own,
                           first, rows, head, batch);
#else
  const tc_backward_problem<T, tc_unmasked> p = {{query, query_batch, query_head, query_row},
                                                 {key, key_batch, key_head, key_row},
                                                 {value, value_batch, value_head, value_row},
                                                 {above, above_batch, above_head, above_row},
                                                 {nullptr, 0, 0, 0},
                                                 0,
                                                 sums,
                                                 shares,
                                                 rows,
                                                 columns,
                                                 heads,
                                                 group,
                                                 scale,
                                                 tc_backward_group_rows(rows)};
  constexpr int together = tc_backward_rows(Depth, false, false);
  if constexpr (Alone) {
    for (int batch = 0; batch < batches; ++batch)
      for (int head = 0; head < heads; ++head)
        for (int first = 0; first < rows; first += together)
          tc_backward_block<Depth, false, Causal>(p, of_own, tc_rows<T>{}, first, head, batch);
  } else {
    tc_backward_block<Depth, false, Causal>(
        p, of_own, tc_rows<T>{}, static_cast<int>(blockIdx.x) * together,
        static_cast<int>(blockIdx.y), static_cast<int>(blockIdx.z));
  }
#endif
}
