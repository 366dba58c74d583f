// Attention where wgmma is (sm_90a): one group of warps brings keys and values, two to four
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
  TC_MEMBER unsigned query(int slot) const {
    return start + static_cast<unsigned>(slot) * Tiles::query_bytes;
  }
  TC_MEMBER unsigned keys(int stage) const {
    return query(Tiles::query_slots) + static_cast<unsigned>(stage) * Tiles::stage_bytes;
  }
  TC_MEMBER unsigned values(int stage) const { return keys(Tiles::stages + stage); }
  TC_MEMBER unsigned barrier(int i) const {
    return keys(2 * Tiles::stages) + static_cast<unsigned>(i) * 8;
  }
  TC_MEMBER unsigned keys_full(int stage) const { return barrier(stage); }
  TC_MEMBER unsigned keys_free(int stage) const { return barrier(Tiles::stages + stage); }
  TC_MEMBER unsigned values_full(int stage) const { return barrier(2 * Tiles::stages + stage); }
  TC_MEMBER unsigned values_free(int stage) const { return barrier(3 * Tiles::stages + stage); }
  TC_MEMBER unsigned query_full(int slot) const { return barrier(4 * Tiles::stages + slot); }
  TC_MEMBER unsigned query_free(int slot) const {
    return barrier(4 * Tiles::stages + Tiles::query_slots + slot);
  }
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
  if ((Tiles::bulk && threadIdx.x % tc_group_threads != 0) || (!Mask::present && p.columns == 0))
    return;
  tc_attention_walk<Depth, Tiles::groups, Causal> items(p);
  tc_ring<Tiles::stages> ring;
  tc_ring<Tiles::query_slots> queries;
  static_assert(Tiles::stages > 1, "arrivals are late");
  tc_late_arrivals arrivals;
  // Without a mask those who multiply free a stage of values late, once the next keys are there:
  // what has been copied is said before this group waits for them. With one they free it before.
  const auto await = [&](unsigned barrier, unsigned parity) {
    if constexpr (!Tiles::bulk && !Mask::present)
      if (!tc_barrier_test(barrier, parity))
        arrivals.end();
    tc_barrier_wait(barrier, parity);
  };
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
    const unsigned query = places.query(queries.stage), full = places.query_full(queries.stage);
    await(places.query_free(queries.stage), queries.parity ^ 1);
    queries.next();
    if constexpr (Tiles::bulk) {
      tc_bring_boxes<Tiles, Tiles::rows>(query, p.query_map, first, item.head, item.batch, full);
    } else {
      tc_bring_rows<Depth, Tiles::rows, false>(query, tc_row(p.query, item.batch, item.head, 0),
                                               p.query.row_stride, first, p.rows);
      arrivals.add(full);
    }
    const tc_group_steps<Tiles, Mask> steps(p, item.batch, item.head, first, end);
    for (int step = 0; step < steps.count; ++step) {
      const int column = steps.key(step);
      await(places.keys_free(ring.stage), ring.parity ^ 1);
      bring(places.keys(ring.stage), keys, p.key.row_stride, p.key_map, column,
            places.keys_full(ring.stage));
      await(places.values_free(ring.stage), ring.parity ^ 1);
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
  tc_ring<tiles::query_slots> queries;
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
  /// Of the next item; what is held in registers is free in shared memory at once.
  TC_MEMBER void take_query() {
    tc_barrier_wait(places.query_full(queries.stage), queries.parity);
    if constexpr (tiles::holds_query) {
      tc_group_load(state, places.query(queries.stage) + group * (tc_group_rows * tc_group_line));
      release(places.query_free(queries.stage));
      queries.next();
    }
  }
  TC_MEMBER void release_query() {
    if constexpr (!tiles::holds_query) {
      release(places.query_free(queries.stage));
      queries.next();
    }
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
    tc_group_scores<tiles, T>(state,
                              places.query(queries.stage) + group * (tc_group_rows * tc_group_line),
                              places.keys(keys.stage));
  }
  /// Of the stage of values `stage`.
  TC_MEMBER void start_sums(int stage) {
    tc_group_sums<tiles, T>(state, places.values(stage));
    being_multiplied = places.values_free(stage);
  }
  /// Whether some row of the group may not see a key of the step.
  TC_MEMBER bool hides(int first_key) const {
    return first_key + tiles::keys > p.columns ||
           (Causal && first_key + tiles::keys > state.row / tc_group_rows * tc_group_rows + 1);
  }

  /// Of an item nothing is known yet but its queries.
  TC_MEMBER void prepare(const tc_attention_item &item) {
    clear_sums();
    clear_weights(first_of(item));
    take_query();
  }
  /// An item's first step, of which nobody else's sums are multiplied.
  TC_MEMBER void begin(float (&smaller)[2], float scale) {
    await_keys();
    begin_turn();
    tc_wgmma_start();
    start_scores();
    end_turn();
    tc_wgmma_wait<0>();
    find_weights(0, smaller, scale);
  }
  /// The steps after the first: scores of each and sums of the last one are multiplied together.
  TC_MEMBER void walk(int own, float (&smaller)[2], float scale) {
    for (int step = 1; step < own; ++step) {
      await_keys();
      take_weights(step > 1, smaller);
      begin_turn();
      tc_wgmma_start();
      start_scores();
      await_values();
      if constexpr (!tiles::small)
        tc_wgmma_start(); // the wait is a loop, before which registers may have been touched
      start_sums(values.stage);
      values.next();
      end_turn();
      tc_wgmma_wait<1>();
      find_weights(step, smaller, scale);
    }
    release_query();
  }
  /// The weights of the last of an item's `own` steps, and the stage of its values.
  TC_MEMBER int take_last_weights(int own, const float (&smaller)[2]) {
    await_values();
    const int stage = values.stage;
    values.next();
    take_weights(own > 1, smaller);
    return stage;
  }
  /// What other groups alone see, from step `own` on.
  TC_MEMBER void pass_rest(const tc_attention_item &item, int own) {
    const int steps = (end_of(item) + tiles::keys - 1) / tiles::keys;
    for (int step = own; step < steps; ++step)
      pass();
  }
  /// The last sums alone. Not by take_last_weights: with a stage that is kept while weights are
  /// taken, ptxas puts a wait behind each product of the short text (C7520).
  TC_MEMBER void end(int own, const float (&smaller)[2]) {
    await_values();
    take_weights(own > 1, smaller);
    tc_wgmma_start();
    start_sums(values.stage);
    values.next();
    tc_wgmma_wait<0>();
    tc_wgmma_hold(state.sums);
    release(being_multiplied);
  }
  /// The last sums of `now` with the first scores of `next`, whose weights are found meanwhile.
  TC_MEMBER void end_and_begin(const tc_attention_item &now, const tc_attention_item &next,
                               float (&smaller)[2], float scale) {
    static_assert(((tiles::groups - 1) * tc_group_rows + tiles::keys - 1) / tiles::keys <
                      tiles::stages,
                  "steps that are passed before the last one's stage is free");
    const int stage = take_last_weights(own_steps(now), smaller);
    pass_rest(now, own_steps(now));
    take_query();
    await_keys();
    begin_turn();
    tc_wgmma_start();
    start_scores();
    start_sums(stage);
    end_turn();
    const float base[2] = {state.base[0], state.base[1]},
                totals[2] = {state.totals[0], state.totals[1]};
    clear_weights(first_of(next));
    tc_wgmma_wait<1>();
    find_weights(0, smaller, scale);
    tc_wgmma_wait<0>();
    tc_wgmma_hold(state.sums);
    release(being_multiplied);
    store(now, first_of(now), base, totals);
    clear_sums();
  }
  /// The next item some rows of which are this group's; others are passed on the way. `more`: there
  /// is an item, `item`.
  TC_MEMBER bool skip(tc_attention_walk<Depth, tiles::groups, Causal> &items,
                      tc_attention_item &item, bool more) {
    for (; more && first_of(item) >= p.rows; more = items.next(p, item)) {
      take_query();
      release_query();
      pass_rest(item, 0);
    }
    return more;
  }
  /// One item after another, nothing of two of them at once: the shortest text.
  TC_MEMBER void walk_apart(float scale) {
    tc_attention_walk<Depth, tiles::groups, Causal> items(p);
    float smaller[2];
    for (tc_attention_item item; items.next(p, item);) {
      const int own = first_of(item) < p.rows ? own_steps(item) : 0;
      prepare(item);
      if (own > 0) {
        begin(smaller, scale);
        walk(own, smaller, scale);
        end(own, smaller);
      } else {
        release_query();
      }
      pass_rest(item, own);
      store(item, first_of(item), state.base, state.totals);
    }
  }
  /// All items, one after another.
  TC_MEMBER void walk_all(float scale) {
    tc_attention_walk<Depth, tiles::groups, Causal> items(p);
    tc_attention_item now, next;
    if (p.columns == 0) { // nothing is brought
      clear_sums();
      for (clear_weights(0); items.next(p, now);)
        store(now, first_of(now), state.base, state.totals);
      return;
    }
    if constexpr (tiles::small) {
      walk_apart(scale);
      return;
    }
    float smaller[2];
    bool more = skip(items, now, items.next(p, now));
    while (more) {
      prepare(now);
      begin(smaller, scale);
      walk(own_steps(now), smaller, scale);
      more = items.next(p, next);
      if constexpr (tiles::ahead)
        for (; more && first_of(next) < p.rows; more = items.next(p, next)) {
          end_and_begin(now, next, smaller, scale);
          now = next;
          walk(own_steps(now), smaller, scale);
        }
      end(own_steps(now), smaller);
      pass_rest(now, own_steps(now));
      store(now, first_of(now), state.base, state.totals);
      more = skip(items, next, more);
      now = next;
    }
  }
  /// Where the text may be long, steps of which some keys are hidden have one of their own: the
  /// others then have nothing between products and weights.
  TC_MEMBER void find_weights(int step, float (&smaller)[2], float scale) {
    tc_wgmma_hold(state.scores);
    release_keys();
    const bool hides_some = hides(step * tiles::keys);
    if (hides_some)
      tc_group_hide<Causal>(state, step * tiles::keys, p.columns);
    if (tiles::small || hides_some)
      tc_group_weigh<false>(state, smaller, scale);
    else
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
      if (hides(first_key))
        tc_group_hide<Causal>(state, first_key, p.columns);
      tc_group_weigh<true>(state, smaller, scale);
      tc_group_shrink(state, smaller);
      tc_group_pack<tiles, T>(state);
      await_values();
      tc_wgmma_start();
      start_sums(values.stage);
      values.next();
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

  /// Sums over totals, of the group's rows from `first` on, to memory.
  TC_MEMBER void store(const tc_attention_item &item, int first, const float (&base)[2],
                       const float (&totals)[2]) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      float total = totals[half];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      const float factor = total == 0.0f ? 0.0f : 1.0f / total; // a row that sees nothing is zero
      const int row = row_of(first) + half * 8;
      if (float *sums = tc_attention_sums(p, item.batch, item.head))
        if (row < p.rows && lane % 4 == 0)
          sums[row] = tc_log_of_sum(base_in_powers_of_two(base[half]), total);
      T *to = tc_row(p.out, item.batch, item.head, row < p.rows ? row : 0);
      TC_UNROLL
      for (int part = 0; part < tiles::depth / 16; ++part) {
        const int at = part * 8 + half * 2;
        tc_store_traded(to, part * 16, row < p.rows, Depth, state.sums[at] * factor,
                        state.sums[at + 1] * factor, state.sums[at + 4] * factor,
                        state.sums[at + 5] * factor);
      }
    }
  }

  /// The first of this group's rows of an item, the end of what the block's rows see, and the steps
  /// that concern this group.
  TC_MEMBER int first_of(const tc_attention_item &item) const {
    return item.block * tiles::rows + group * tc_group_rows;
  }
  TC_MEMBER int end_of(const tc_attention_item &item) const {
    const int end = (item.block + 1) * tiles::rows;
    return Causal && end < p.columns ? end : p.columns;
  }
  TC_MEMBER int own_steps(const tc_attention_item &item) const {
    const int first = first_of(item), end = end_of(item),
              own_end = Causal && first + tc_group_rows < end ? first + tc_group_rows : end;
    return (own_end + tiles::keys - 1) / tiles::keys;
  }
  TC_MEMBER void clear_sums() {
    TC_UNROLL
    for (int i = 0; i < tiles::depth / 2; ++i)
      state.sums[i] = 0.0f;
  }
  /// Of the rows from `first` on no weight is known.
  TC_MEMBER void clear_weights(int first) {
    state.row = row_of(first);
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      state.base[half] = -TC_INF;
      state.totals[half] = 0.0f;
    }
  }
  /// The first of this thread's two rows, of a group's that start at `first`.
  TC_FN int row_of(int first) {
    return first + static_cast<int>(threadIdx.x) / 32 % 4 * 16 +
           static_cast<int>(threadIdx.x) % 32 / 4;
  }
  TC_MEMBER void walk_all_masked() {
    tc_attention_walk<Depth, tiles::groups, Causal> items(p);
    for (tc_attention_item item; items.next(p, item);) {
      const int own_first = first_of(item);
      const tc_group_steps<tiles, Mask> steps(p, item.batch, item.head, item.block * tiles::rows,
                                              end_of(item));
      const int own = own_first >= p.rows ? 0 : Mask::computed ? steps.count : own_steps(item);
      clear_sums();
      clear_weights(own_first);
      take_query();
      walk_masked(own, steps, item, p.scale);
      store(item, own_first, state.base, state.totals);
    }
  }

  TC_MEMBER void run() {
    if (group == tiles::groups - 1)
      end_turn(); // the first one's turn
    if constexpr (Mask::present)
      walk_all_masked();
    else
      walk_all(p.scale * tc_log2_e); // weights are powers of two
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
    for (int slot = 0; slot < tiles::query_slots; ++slot) {
      tc_barrier_init(places.query_full(slot), arrivals);
      tc_barrier_init(places.query_free(slot), warps);
    }
    for (int stage = 0; stage < tiles::stages; ++stage) {
      tc_barrier_init(places.keys_full(stage), arrivals);
      tc_barrier_init(places.values_full(stage), arrivals);
      tc_barrier_init(places.keys_free(stage), warps);
      tc_barrier_init(places.values_free(stage), warps);
    }
    tc_barrier_fence_init();
  }
  __syncthreads();
  const int group = tc_of_warp(static_cast<int>(threadIdx.x) / tc_group_threads);
  if (group == tiles::groups) {
    tc_registers_give<tiles::bring_registers>();
    tc_attention_bring<tiles, Depth, Causal>(p, places);
  } else {
    tc_registers_take<tiles::compute_registers>();
    tc_attention_group<tiles, Depth, Causal, T, Mask>{p, places, group, {}, {}, {}, {}, 0}.run();
  }
}

#endif
