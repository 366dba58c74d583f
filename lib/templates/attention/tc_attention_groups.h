// Attention where wgmma is (sm_90a): one group of warps brings keys and values, two or three
// others compute 64 rows each (Shah et al., "FlashAttention-3"). While one of them multiplies,
// another finds weights; each starts the next scores before it multiplies the last weights with
// values. A block stays and computes one item (rows of a head) after another.
#pragma once

#include "tc_attention_items.h"
#include "tc_attention_state.h"

#ifndef __CUDA_ARCH_FEAT_SM90_ALL

/// The same without wgmma: on the host, and where a program meets another device than it was
/// planned for.
template <int Depth, int Groups, bool Causal, bool Bulk, class T, class Mask>
TC_FN void tc_attention_by_groups(const tc_attention_problem<T, Mask> &p) {
  using walk = tc_attention_walk<Depth, Groups, Causal>;
  walk items(p);
  for (tc_attention_item item; items.next(p, item);) {
    const int first = item.block * walk::rows,
              end = first + walk::rows < p.rows ? first + walk::rows : p.rows;
    for (int row = first; row < end; row += tc_attention_rows)
      tc_attention_block<Depth, Causal>(p, row, end, item.head, item.batch);
  }
}

#else

/// Where things lie in shared memory.
template <class Tiles> struct tc_group_places {
  unsigned start;
  TC_MEMBER unsigned query() const { return start; }
  TC_MEMBER unsigned keys(int stage) const {
    return start + Tiles::query_bytes + static_cast<unsigned>(stage) * Tiles::stage_bytes;
  }
  TC_MEMBER unsigned values(int stage) const { return keys(Tiles::stages + stage); }
  TC_MEMBER unsigned barrier(int i) const {
    return keys(2 * Tiles::stages) + static_cast<unsigned>(i) * 8;
  }
  TC_MEMBER unsigned query_full() const { return barrier(0); }
  TC_MEMBER unsigned query_free() const { return barrier(1); }
  TC_MEMBER unsigned keys_full(int stage) const { return barrier(2 + stage); }
  TC_MEMBER unsigned keys_free(int stage) const { return barrier(2 + Tiles::stages + stage); }
  TC_MEMBER unsigned values_full(int stage) const { return barrier(2 + 2 * Tiles::stages + stage); }
  TC_MEMBER unsigned values_free(int stage) const { return barrier(2 + 3 * Tiles::stages + stage); }
};

template <class Tiles, class Mask>
using tc_group_steps =
    tc_attention_steps<Tiles::keys, Mask, tc_steps_by_lists<Tiles::keys, Mask>()>;

// ---- bringing

/// Starts copying `Lines` rows from `first` on; what lies past `count` rows or Depth elements is
/// zero. Ordered: as tc_attention_key has it. A thread's lines are 16 apart, its rows 16 or,
/// ordered, 4 and 28 in turn; a pointer walks them, since this group has few registers.
template <int Depth, int Lines, bool Ordered, class T>
TC_FN void tc_bring_rows(unsigned to, const T *from, long long stride, int first, int count) {
  constexpr int at_once = tc_group_threads / 8; // lines
  const int thread = static_cast<int>(threadIdx.x) % tc_group_threads, word = thread % 8,
            line = thread / 8;
  const int row = first + (Ordered ? line % 8 / 2 * 8 + line / 8 * 2 + line % 2 : line);
  const long long short_step = (Ordered ? 4 : at_once) * stride,
                  long_step = (Ordered ? 28 : at_once) * stride;
  unsigned place = to + tc_swizzled(line, word);
  TC_UNROLL
  for (int block = 0; block < tc_attention_blocks(Depth); ++block) {
    const int column = block * tc_group_block + word * 8;
    const T *source = from + row * stride + column;
    const int left = column < Depth ? count - row : 0;
    TC_UNROLL
    for (int k = 0; k < Lines / at_once; ++k) {
      tc_async_copy(place, source, left > (Ordered ? k / 2 * 32 + k % 2 * 4 : k * at_once));
      source += k % 2 ? long_step : short_step;
      place += at_once * tc_group_line;
    }
  }
}

/// By one thread: a box of `Lines` rows from `first` on for each 64 elements of depth; zeros as
/// above. What comes counts for `full`.
template <class Tiles, int Lines>
TC_FN void tc_bring_boxes(unsigned to, const tc_tensor_map *map, int first, int head, int batch,
                          unsigned full) {
  constexpr unsigned bytes = Lines * tc_group_line;
  tc_barrier_expect(full, Tiles::blocks * bytes);
  TC_UNROLL
  for (int block = 0; block < Tiles::blocks; ++block)
    tc_bulk_copy(to + block * bytes, map, block * tc_group_block, first, head, batch, full);
}

/// Arrivals of threads that copy, two copies later than their own: by then it is there, and a fence
/// makes it seen by wgmma. (Those who multiply would else need one at every step, which waits for
/// all that they have under way, masks among it.) What a stage waits for to be free again came
/// earlier by more than that.
class tc_late_arrivals {
public:
  /// The copies since the last call count for `full`.
  TC_MEMBER void add(unsigned full) {
    tc_async_end_group();
    if (older_ != 0) {
      tc_async_wait<2>();
      tc_wgmma_see_shared();
      tc_barrier_arrive(older_);
    }
    older_ = newer_;
    newer_ = full;
  }
  /// Before a wait for those who need what was copied last.
  TC_MEMBER void end() {
    tc_async_wait<0>();
    tc_wgmma_see_shared();
    if (older_ != 0)
      tc_barrier_arrive(older_);
    if (newer_ != 0)
      tc_barrier_arrive(newer_);
    older_ = newer_ = 0;
  }

private:
  unsigned older_ = 0, newer_ = 0;
};

template <class Tiles, int Depth, bool Causal, class T, class Mask>
TC_FN void tc_attention_bring(const tc_attention_problem<T, Mask> &p,
                              const tc_group_places<Tiles> &places) {
  if (Tiles::bulk && threadIdx.x % tc_group_threads != 0)
    return;
  tc_attention_walk<Depth, Tiles::groups, Causal> items(p);
  tc_ring<Tiles::stages> ring;
  static_assert(Tiles::stages > 1, "arrivals are late");
  tc_late_arrivals arrivals;
  unsigned query_parity = 1;
  for (tc_attention_item item; items.next(p, item);) {
    const int first = item.block * Tiles::rows, key_head = item.head / p.group;
    const int end = Causal && first + Tiles::rows < p.columns ? first + Tiles::rows : p.columns;
    const T *keys = tc_row(p.key, item.batch, key_head, 0),
            *values = tc_row(p.value, item.batch, key_head, 0);
    const auto bring = [&](unsigned to, const T *from, long long stride, const tc_tensor_map *map,
                           int column, unsigned full) {
      if constexpr (Tiles::bulk) {
        tc_bring_boxes<Tiles, Tiles::keys>(to, map, column, key_head, item.batch, full);
      } else {
        tc_bring_rows<Depth, Tiles::keys, Tiles::ordered>(to, from, stride, column, p.columns);
        arrivals.add(full);
      }
    };
    tc_barrier_wait(places.query_free(), query_parity);
    query_parity ^= 1;
    if constexpr (Tiles::bulk) {
      tc_bring_boxes<Tiles, Tiles::rows>(places.query(), p.query_map, first, item.head, item.batch,
                                         places.query_full());
    } else {
      tc_bring_rows<Depth, Tiles::rows, false>(places.query(),
                                               tc_row(p.query, item.batch, item.head, 0),
                                               p.query.row_stride, first, p.rows);
      arrivals.add(places.query_full());
    }
    const tc_group_steps<Tiles, Mask> steps(p, item.batch, item.head, first, end);
    for (int step = 0; step < steps.count; ++step) {
      const int column = steps.key(step);
      tc_barrier_wait(places.keys_free(ring.stage), ring.parity ^ 1);
      bring(places.keys(ring.stage), keys, p.key.row_stride, p.key_map, column,
            places.keys_full(ring.stage));
      tc_barrier_wait(places.values_free(ring.stage), ring.parity ^ 1);
      bring(places.values(ring.stage), values, p.value.row_stride, p.value_map, column,
            places.values_full(ring.stage));
      ring.next();
    }
    if constexpr (!Tiles::bulk)
      arrivals.end();
  }
}

// ---- a group's work

/// What a group of warps does: everything that it needs of its place.
template <class Tiles, int Depth, bool Causal, class T, class Mask> struct tc_attention_group {
  using tiles = Tiles;
  const tc_attention_problem<T, Mask> &p;
  const tc_group_places<tiles> &places;
  int group;
  tc_group_state<tiles> state;
  tc_ring<tiles::stages> keys, values;
  unsigned being_multiplied; // barrier of the values' stage

  /// Groups start products one after another: while one finds weights, the next multiplies.
  TC_MEMBER void begin_turn() const { tc_group_sync(1 + group, 2 * tc_group_threads); }
  TC_MEMBER void end_turn() const {
    tc_group_arrive(1 + (group + 1) % tiles::groups, 2 * tc_group_threads);
  }
  TC_FN void release(unsigned barrier) {
    if (threadIdx.x % 32 == 0)
      tc_barrier_arrive(barrier);
  }
  TC_MEMBER void release_query() const {
    if constexpr (!tiles::holds_query)
      release(places.query_free());
  }
  TC_MEMBER void await_keys() { tc_barrier_wait(places.keys_full(keys.stage), keys.parity); }
  TC_MEMBER void await_values() {
    tc_barrier_wait(places.values_full(values.stage), values.parity);
  }
  TC_MEMBER void release_keys() {
    release(places.keys_free(keys.stage));
    keys.next();
  }
  TC_MEMBER void start_scores() {
    tc_group_scores<tiles, T>(state, places.query() + group * (tc_group_rows * tc_group_line),
                              places.keys(keys.stage));
  }
  TC_MEMBER void start_sums() {
    tc_group_sums<tiles, T>(state, places.values(values.stage));
    being_multiplied = places.values_free(values.stage);
    values.next();
  }
  TC_MEMBER void hide(int first_key) {
    if (first_key + tiles::keys > p.columns ||
        (Causal && first_key + tiles::keys > state.row / tc_group_rows * tc_group_rows + 1))
      tc_group_hide<Causal>(state, first_key, p.columns);
  }

  /// `steps` of the block, of which this group computes `own`: scores of the next step and sums of
  /// the last one are multiplied together.
  TC_MEMBER void walk(int own, int steps, float scale) {
    if (own > 0)
      walk_seen(own, scale);
    else
      release_query();
    for (int step = own; step < steps; ++step) // what no row of this group sees
      pass();
  }
  TC_MEMBER void walk_seen(int own, float scale) {
    float smaller[2];
    await_keys();
    begin_turn();
    tc_wgmma_start();
    start_scores();
    end_turn();
    tc_wgmma_wait<0>();
    find_weights(0, smaller, scale);
    for (int step = 1; step < own; ++step) {
      await_keys();
      take_weights(step > 1, smaller);
      begin_turn();
      tc_wgmma_start();
      start_scores();
      await_values();
      start_sums();
      end_turn();
      tc_wgmma_wait<1>();
      find_weights(step, smaller, scale);
    }
    release_query();
    await_values();
    take_weights(own > 1, smaller);
    tc_wgmma_start();
    start_sums();
    tc_wgmma_wait<0>();
    tc_wgmma_hold(state.sums);
    release(being_multiplied);
  }
  TC_MEMBER void find_weights(int step, float (&smaller)[2], float scale) {
    tc_wgmma_hold(state.scores);
    release_keys();
    hide(step * tiles::keys);
    tc_group_weigh<false>(state, smaller, scale);
    tc_wgmma_hold(state.scores);
  }
  /// Who calls it has waited for a barrier: the compiler moves no wait for products over that, and
  /// so these weights are found while the last ones are multiplied.
  TC_MEMBER void take_weights(bool multiplied, const float (&smaller)[2]) {
    tc_wgmma_wait<0>();
    tc_wgmma_hold(state.sums);
    if (multiplied)
      release(being_multiplied);
    tc_group_shrink(state, smaller);
    tc_group_pack<tiles, T>(state);
  }
  TC_MEMBER void pass() {
    await_keys();
    begin_turn();
    end_turn();
    release_keys();
    await_values();
    release(places.values_free(values.stage));
    values.next();
  }

  /// The same with a mask: what it hides altogether is not computed.
  TC_MEMBER void walk_masked(int own, const tc_group_steps<tiles, Mask> &steps,
                             const tc_attention_item &item, float scale) {
    tc_group_mask<tiles, Mask> mask;
    const auto load = [&](int step, int first_key) {
      mask.load(p, item.batch, item.head, state.row, first_key, steps.is_whole(step));
    };
    for (int step = 0; step < steps.count; ++step) {
      const int first_key = steps.key(step);
      bool sees = step < own;
      if constexpr (mask.early) {
        load(step, first_key);
        sees = tc_group_any(1 + tiles::groups + group, tc_group_threads,
                            sees && mask.sees(first_key, p.columns));
      }
      if (!sees) {
        pass();
        continue;
      }
      float smaller[2];
      await_keys();
      begin_turn();
      tc_wgmma_start();
      start_scores();
      end_turn();
      tc_wgmma_wait<0>();
      tc_wgmma_hold(state.scores);
      release_keys();
      if constexpr (!mask.early)
        load(step, first_key);
      mask.add(state.scores, scale);
      hide(first_key);
      tc_group_weigh<true>(state, smaller, scale);
      tc_group_shrink(state, smaller);
      tc_group_pack<tiles, T>(state);
      await_values();
      tc_wgmma_start();
      start_sums();
      tc_wgmma_wait<0>();
      tc_wgmma_hold(state.sums);
      release(being_multiplied);
    }
    release_query();
  }

  /// Of finite ones a finite number: what drowns in a mask is told from what it hides.
  TC_MEMBER float base_in_powers_of_two(float base) const {
    constexpr float limit = 3.402823466e38f;
    if constexpr (Mask::present)
      return base == -TC_INF ? base : fmaxf(base * tc_log2_e, -limit);
    else
      return base;
  }

  /// Sums over totals, to memory.
  TC_MEMBER void store(int batch, int head) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      float total = state.totals[half];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      const float factor = total == 0.0f ? 0.0f : 1.0f / total; // a row that sees nothing is zero
      const int row = state.row + half * 8;
      if (float *sums = tc_attention_sums(p, batch, head))
        if (row < p.rows && lane % 4 == 0)
          sums[row] = tc_log_of_sum(base_in_powers_of_two(state.base[half]), total);
      T *to = tc_row(p.out, batch, head, row < p.rows ? row : 0);
      TC_UNROLL
      for (int part = 0; part < tiles::depth / 16; ++part) {
        const int at = part * 8 + half * 2;
        tc_store_traded(to, part * 16, row < p.rows, Depth, state.sums[at] * factor,
                        state.sums[at + 1] * factor, state.sums[at + 4] * factor,
                        state.sums[at + 5] * factor);
      }
    }
  }

  TC_MEMBER void run() {
    tc_attention_walk<Depth, tiles::groups, Causal> items(p);
    const float scale = p.scale * tc_log2_e; // weights are powers of two
    unsigned query_parity = 0;
    if (group == tiles::groups - 1)
      end_turn(); // the first one's turn
    for (tc_attention_item item; items.next(p, item);) {
      const int first = item.block * tiles::rows, own_first = first + group * tc_group_rows;
      const int end = Causal && first + tiles::rows < p.columns ? first + tiles::rows : p.columns;
      const int own_end = own_first >= p.rows                         ? 0
                          : Causal && own_first + tc_group_rows < end ? own_first + tc_group_rows
                                                                      : end;
      const tc_group_steps<tiles, Mask> steps(p, item.batch, item.head, first, end);
      const int own =
          Mask::computed && own_end > 0 ? steps.count : (own_end + tiles::keys - 1) / tiles::keys;
      state.row = own_first + static_cast<int>(threadIdx.x) / 32 % 4 * 16 +
                  static_cast<int>(threadIdx.x) % 32 / 4;
      TC_UNROLL
      for (int i = 0; i < tiles::depth / 2; ++i)
        state.sums[i] = 0.0f;
      TC_UNROLL
      for (int half = 0; half < 2; ++half) {
        state.base[half] = -TC_INF;
        state.totals[half] = 0.0f;
      }
      tc_barrier_wait(places.query_full(), query_parity);
      query_parity ^= 1;
      if constexpr (tiles::holds_query) {
        tc_group_load(state, places.query() + group * (tc_group_rows * tc_group_line));
        release(places.query_free());
      }
      if constexpr (Mask::present)
        walk_masked(own, steps, item, p.scale);
      else
        walk(own, steps.count, scale);
      store(item.batch, item.head);
    }
  }
};

template <int Depth, int Groups, bool Causal, bool Bulk, class T, class Mask>
TC_FN void tc_attention_by_groups(const tc_attention_problem<T, Mask> &p) {
  using tiles =
      tc_group_tiles<Depth, Groups, Mask::present, Mask::present && !Mask::computed, Bulk>;
  TC_DYN_SMEM(unsigned char, shared);
  const tc_group_places<tiles> places{(tc_shared_address(shared) + 1023u) & ~1023u};
  if (threadIdx.x == 0) {
    constexpr int warps = tiles::groups * 4, arrivals = Bulk ? 1 : tc_group_threads;
    if constexpr (Bulk) {
      tc_bulk_prepare(p.query_map);
      tc_bulk_prepare(p.key_map);
      tc_bulk_prepare(p.value_map);
    }
    tc_barrier_init(places.query_full(), arrivals);
    tc_barrier_init(places.query_free(), warps);
    for (int stage = 0; stage < tiles::stages; ++stage) {
      tc_barrier_init(places.keys_full(stage), arrivals);
      tc_barrier_init(places.values_full(stage), arrivals);
      tc_barrier_init(places.keys_free(stage), warps);
      tc_barrier_init(places.values_free(stage), warps);
    }
    tc_barrier_fence_init();
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / tc_group_threads;
  if (group == tiles::groups) {
    tc_registers_give<tiles::bring_registers>();
    tc_attention_bring<tiles, Depth, Causal>(p, places);
  } else {
    tc_registers_take<tiles::compute_registers>();
    tc_attention_group<tiles, Depth, Causal, T, Mask>{p, places, group, {}, {}, {}, 0}.run();
  }
}

#endif
