// Attention where wgmma is (sm_90a): one group of warps brings keys and values, two or three
// others compute 64 rows each (Shah et al., "FlashAttention-3"). While one of them multiplies,
// another finds weights; each starts the next scores before it multiplies the last weights with
// values. A block stays and computes one item (rows of a head) after another.
//
// Keys lie in shared memory in an order of their own within 32, so that a thread's scores of a row
// are of 8 neighbouring keys and their mask is one access. tc_attention_key says which.
#pragma once

#include "tc_attention.h"
#include "tc_pipeline.h"

/// The key, of a step, of a thread's score `i` (i % 4 < 2: of its first row); `lane` of its warp.
TC_FN constexpr int tc_attention_key(int i, int lane) {
  return i / 16 * 32 + lane % 4 * 8 + i / 4 % 4 * 2 + i % 2;
}

/// Which rows of which head: items are numbered so that blocks at work at the same time share keys
/// and values, and under Causal longer ones come before shorter ones.
struct tc_attention_item {
  int block, head, batch;
};
template <int Depth, bool Causal, class T, class Mask>
TC_FN tc_attention_item tc_attention_item_of(const tc_attention_problem<T, Mask> &p, int item,
                                             int blocks) {
  const int heads = p.heads * p.batches;
  int head = item / blocks, block = item % blocks;
  if constexpr (Causal) {
    // Neighbouring blocks of a head together; one at a time where the L2 holds all keys and values.
    const bool fits = 4ll * Depth * p.columns * (heads / p.group) <= (32ll << 20);
    const int level = fits ? 1 : blocks < 32 ? 4 : (blocks + 7) / 8;
    const int first = item / (level * heads) * level; // counted from the longest
    const int here = blocks - first < level ? blocks - first : level;
    const int rest = item - first * heads;
    head = rest / here;
    block = blocks - 1 - first - rest % here;
  }
  return {block, head % p.heads, head / p.heads};
}
/// The item that this block computes in its round `round`: every second round goes backwards, which
/// evens out what longer items cost.
TC_FN int tc_attention_turn(int round) {
  const int block = static_cast<int>(blockIdx.x), blocks = static_cast<int>(gridDim.x);
  return round * blocks + (round % 2 ? blocks - 1 - block : block);
}

#ifndef __CUDA_ARCH_FEAT_SM90_ALL

/// The same without wgmma: on the host, and where a program meets another device than it was
/// planned for.
template <int Depth, int Groups, bool Causal, class T, class Mask>
TC_FN void tc_attention_by_groups(const tc_attention_problem<T, Mask> &p) {
  constexpr int rows = tc_group_rows * Groups;
  const int blocks = (p.rows + rows - 1) / rows, items = blocks * p.heads * p.batches;
  for (int round = 0; round * static_cast<int>(gridDim.x) < items; ++round) {
    const int turn = tc_attention_turn(round);
    if (turn >= items)
      continue;
    const tc_attention_item item = tc_attention_item_of<Depth, Causal>(p, turn, blocks);
    const int end = item.block * rows + rows < p.rows ? item.block * rows + rows : p.rows;
    for (int first = item.block * rows; first < end; first += tc_attention_rows)
      tc_attention_block<Depth, Causal>(p, first, end, item.head, item.batch);
  }
}

#else

template <int Depth, int Groups, bool Masked> struct tc_group_tiles {
  static constexpr int groups = Groups;
  static constexpr int rows = groups * tc_group_rows;
  static constexpr int keys = tc_attention_group_keys(Depth, Groups);
  static constexpr int stages = tc_attention_stages(Depth);
  static constexpr int blocks = tc_attention_blocks(Depth);
  static constexpr int steps = (Depth + 15) / 16;      // of 16 elements of depth
  static constexpr int depth = (Depth + 31) / 32 * 32; // that values are multiplied in
  /// Queries are read once: shared memory then serves keys and values alone.
  static constexpr bool holds_query = Groups == 2 && Depth <= 64 && !Masked;
  static constexpr unsigned stage_bytes = keys * tc_group_line * blocks;
  static constexpr unsigned query_bytes = rows * tc_group_line * blocks;
  static constexpr int bring_registers = groups == 3 ? 32 : 40,
                       compute_registers = groups == 3 ? 160 : 232;
};

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

template <int Depth, int Groups, bool Causal, class T, class Mask>
TC_FN void
tc_attention_bring(const tc_attention_problem<T, Mask> &p,
                   const tc_group_places<tc_group_tiles<Depth, Groups, Mask::present>> &places) {
  using tiles = tc_group_tiles<Depth, Groups, Mask::present>;
  const int blocks = (p.rows + tiles::rows - 1) / tiles::rows, items = blocks * p.heads * p.batches;
  tc_ring<tiles::stages> ring;
  unsigned query_parity = 1;
  for (int round = 0; round * static_cast<int>(gridDim.x) < items; ++round) {
    const int turn = tc_attention_turn(round);
    if (turn >= items)
      break;
    const tc_attention_item item = tc_attention_item_of<Depth, Causal>(p, turn, blocks);
    const int first = item.block * tiles::rows, key_head = item.head / p.group;
    const int end = Causal && first + tiles::rows < p.columns ? first + tiles::rows : p.columns;
    tc_barrier_wait(places.query_free(), query_parity);
    query_parity ^= 1;
    tc_bring_rows<Depth, tiles::rows, false>(places.query(),
                                             tc_row(p.query, item.batch, item.head, 0),
                                             p.query.row_stride, first, p.rows);
    tc_barrier_arrive_after_copies(places.query_full());
    const T *keys = tc_row(p.key, item.batch, key_head, 0),
            *values = tc_row(p.value, item.batch, key_head, 0);
    for (int column = 0; column < end; column += tiles::keys) {
      tc_barrier_wait(places.keys_free(ring.stage), ring.parity ^ 1);
      tc_bring_rows<Depth, tiles::keys, true>(places.keys(ring.stage), keys, p.key.row_stride,
                                              column, p.columns);
      tc_barrier_arrive_after_copies(places.keys_full(ring.stage));
      tc_barrier_wait(places.values_free(ring.stage), ring.parity ^ 1);
      tc_bring_rows<Depth, tiles::keys, true>(places.values(ring.stage), values, p.value.row_stride,
                                              column, p.columns);
      tc_barrier_arrive_after_copies(places.values_full(ring.stage));
      ring.next();
    }
  }
}

// ---- computing

/// What a thread keeps of its two rows, 8 apart.
template <class Tiles> struct tc_group_state {
  float sums[Tiles::depth / 2];
  float scores[Tiles::keys / 2];
  unsigned weights[Tiles::keys / 4];
  unsigned query[Tiles::holds_query ? Tiles::steps : 1][4];
  float base[2], totals[2]; // what weights are relative to, as a power of two; sums of weights
  int row;                  // the first of the two
};

/// scores = queries @ keys of the stage, started.
template <class Tiles, class T>
TC_FN void tc_group_scores(tc_group_state<Tiles> &state, unsigned query, unsigned keys) {
  const unsigned long long left = tc_wgmma_descriptor(query, 16),
                           first = tc_wgmma_descriptor(keys, 16);
  TC_UNROLL
  for (int k = 0; k < Tiles::steps; ++k) {
    const unsigned long long right =
        tc_wgmma_further(first, k / 4 * (Tiles::keys * tc_group_line) + k % 4 * 32);
    if constexpr (Tiles::holds_query)
      tc_multiply_group_left(T{}, state.scores, state.query[k], right, k == 0 ? 0 : 1);
    else
      tc_multiply_group<0, 0>(
          T{}, state.scores,
          tc_wgmma_further(left, k / 4 * (Tiles::rows * tc_group_line) + k % 4 * 32), right,
          k == 0 ? 0 : 1);
  }
  tc_wgmma_end_group();
}
/// Queries to registers.
template <class Tiles> TC_FN void tc_group_load(tc_group_state<Tiles> &state, unsigned query) {
  const int lane = static_cast<int>(threadIdx.x) % 32,
            row = static_cast<int>(threadIdx.x) / 32 % 4 * 16 + lane % 16;
  TC_UNROLL
  for (int k = 0; k < Tiles::steps; ++k)
    tc_load_matrices<false>(state.query[k], query + k / 4 * (Tiles::rows * tc_group_line) +
                                                tc_swizzled(row, k % 4 * 2 + lane / 16));
}
/// sums += weights @ values of the stage, started.
template <class Tiles, class T>
TC_FN void tc_group_sums(tc_group_state<Tiles> &state, unsigned values) {
  const unsigned long long first = tc_wgmma_descriptor(values, Tiles::keys * tc_group_line);
  TC_UNROLL
  for (int k = 0; k < Tiles::keys / 16; ++k)
    tc_multiply_group_turned(T{}, state.sums, state.weights + 4 * k,
                             tc_wgmma_further(first, k * 16 * tc_group_line));
  tc_wgmma_end_group();
}

/// Hides keys past the end, and under Causal those after a row's own.
template <bool Causal, class Tiles>
TC_FN void tc_group_hide(tc_group_state<Tiles> &state, int first_key, int columns) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int i = 0; i < Tiles::keys / 2; ++i) {
    const int key = first_key + tc_attention_key(i, lane);
    if (key >= columns || (Causal && key > state.row + i / 2 % 2 * 8))
      state.scores[i] = -TC_INF;
  }
}

/// Weights may be this power of two before earlier sums shrink: most steps then shrink nothing.
constexpr float tc_group_growth = 8.0f;

/// Scores become weights against the base of their row, which follows the largest of them;
/// `smaller`: what earlier sums shrink by. Scores are powers of two times `scale`. Four largest and
/// four totals at a time: what waits for the one before it would take longest.
template <bool Scaled, class Tiles>
TC_FN void tc_group_weigh(tc_group_state<Tiles> &state, float (&smaller)[2], float scale) {
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    float part[4] = {-TC_INF, -TC_INF, -TC_INF, -TC_INF};
    TC_UNROLL
    for (int i = half * 2; i < Tiles::keys / 2; i += 4)
      part[i / 4 % 4] = fmaxf(part[i / 4 % 4], fmaxf(state.scores[i], state.scores[i + 1]));
    float largest = fmaxf(fmaxf(part[0], part[1]), fmaxf(part[2], part[3]));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, 2));
    if constexpr (!Scaled)
      largest = __fmul_rn(largest, scale);
    if (largest <= state.base[half] + tc_group_growth)
      largest = state.base[half];
    const float base = largest == -TC_INF ? 0.0f : largest;
    smaller[half] = tc_fast_exp2(state.base[half] - base);
    state.base[half] = largest;
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    TC_UNROLL
    for (int i = half * 2; i < Tiles::keys / 2; i += 4)
      TC_UNROLL
    for (int j = i; j < i + 2; ++j) {
      state.scores[j] =
          tc_fast_exp2(Scaled ? state.scores[j] - base : fmaf(state.scores[j], scale, -base));
      total[i / 4 % 2 * 2 + j % 2] += state.scores[j];
    }
    state.totals[half] =
        state.totals[half] * smaller[half] + ((total[0] + total[1]) + (total[2] + total[3]));
  }
}
template <class Tiles, class T> TC_FN void tc_group_pack(tc_group_state<Tiles> &state) {
  TC_UNROLL
  for (int i = 0; i < Tiles::keys / 4; ++i)
    state.weights[i] = tc_pack(T{}, state.scores[2 * i], state.scores[2 * i + 1]);
}
/// Where no row of the warp has met a larger score, nothing shrinks.
template <class Tiles>
TC_FN void tc_group_shrink(tc_group_state<Tiles> &state, const float (&smaller)[2]) {
  if (!__any_sync(0xffffffffu, smaller[0] != 1.0f || smaller[1] != 1.0f))
    return;
  TC_UNROLL
  for (int i = 0; i < Tiles::depth / 2; ++i)
    state.sums[i] *= smaller[i / 2 % 2];
}

// ---- masks

/// The mask of a thread's scores of a step, added in powers of two.
/// -inf hides; a number that is finite stays finite, so that it drowns a score and rows that are
/// masked throughout have equal weights.
template <class Tiles, class Mask> struct tc_group_mask;

template <class Tiles> struct tc_group_mask<Tiles, tc_no_mask> {};

template <class Tiles, class M, bool Pairs, bool Runs>
struct tc_group_mask<Tiles, tc_mask<M, Pairs, Runs>> {
  static constexpr int runs = Tiles::keys / 32;
  /// Registers hold it beside sums and scores: it is loaded before the scores are there, and steps
  /// that it hides altogether are not computed.
  static constexpr bool early = Tiles::depth <= 64 || (Tiles::depth <= 128 && sizeof(M) <= 2);
  tc_vec<M, 8> added[2][runs]; // of the two rows: runs of 8 keys

  TC_MEMBER void load(const tc_mask<M, Pairs, Runs> &mask, int batch, int head, int row, int rows,
                      int first_key, int columns) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int at = row + half * 8 < rows ? row + half * 8 : rows - 1;
      const M *line = tc_row(mask.rows, batch, head, at);
      TC_UNROLL
      for (int run = 0; run < runs; ++run) {
        const int key = first_key + run * 32 + lane % 4 * 8;
        if constexpr (Runs) {
          added[half][run] = tc_load_vec_where<8>(key < columns, line + key);
        } else {
          TC_UNROLL
          for (int j = 0; j < 8; ++j)
            added[half][run].at[j] = key + j < columns ? line[(key + j) * mask.column_stride] : M{};
        }
      }
    }
  }
  TC_FN bool hides(bool visible) { return !visible; }
  template <class E> TC_FN bool hides(E value) { return tc_get(value) == -TC_INF; }
  /// Whether some score may be seen, of those that there are.
  TC_MEMBER bool sees(int first_key, int columns) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    bool result = false;
    TC_UNROLL
    for (int half = 0; half < 2; ++half)
      TC_UNROLL
    for (int run = 0; run < runs; ++run)
      TC_UNROLL
    for (int j = 0; j < 8; ++j)
      result = result || (first_key + run * 32 + lane % 4 * 8 + j < columns &&
                          !hides(added[half][run].at[j]));
    return result;
  }
  TC_FN float masked(float score, float scale, bool visible) {
    return visible ? score * scale : -TC_INF;
  }
  template <class E> TC_FN float masked(float score, float scale, E value) {
    constexpr float limit = 3.402823466e38f;
    const float added = tc_get(value), powers = added * 1.4426950408889634f;
    const bool finite = added >= -limit && added <= limit;
    return fmaf(score, scale, finite ? fminf(fmaxf(powers, -limit), limit) : powers);
  }
  TC_MEMBER void add(float (&scores)[Tiles::keys / 2], float scale) const {
    TC_UNROLL
    for (int i = 0; i < Tiles::keys / 2; ++i)
      scores[i] = masked(scores[i], scale, added[i / 2 % 2][i / 16].at[i / 4 % 4 * 2 + i % 2]);
  }
};

// ---- a group's work

/// What a group of warps does: everything that it needs of its place.
template <int Depth, int Groups, bool Causal, class T, class Mask> struct tc_attention_group {
  using tiles = tc_group_tiles<Depth, Groups, Mask::present>;
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
  TC_MEMBER void await_keys() {
    tc_barrier_wait(places.keys_full(keys.stage), keys.parity);
    tc_wgmma_see_shared();
  }
  TC_MEMBER void await_values() {
    tc_barrier_wait(places.values_full(values.stage), values.parity);
    tc_wgmma_see_shared();
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
  TC_MEMBER void walk_masked(int own, int steps, const tc_attention_item &item, float scale) {
    tc_group_mask<tiles, Mask> mask;
    const auto load = [&](int first_key) {
      mask.load(p.mask, item.batch, item.head, state.row, p.rows, first_key, p.columns);
    };
    for (int step = 0; step < steps; ++step) {
      const int first_key = step * tiles::keys;
      bool sees = step < own;
      if constexpr (mask.early) {
        load(first_key);
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
        load(first_key);
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

  /// Sums over totals, to memory: a thread has 2 of each 8 elements of a row; neighbours trade, so
  /// that each stores 4 and a row's stores fill sectors.
  TC_MEMBER void store(int batch, int head) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const bool odd = lane % 2 != 0;
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      float total = state.totals[half];
      total += __shfl_xor_sync(0xffffffffu, total, 1);
      total += __shfl_xor_sync(0xffffffffu, total, 2);
      const float factor = total == 0.0f ? 0.0f : 1.0f / total; // a row that sees nothing is zero
      const int row = state.row + half * 8;
      T *to = tc_row(p.out, batch, head, row < p.rows ? row : 0);
      TC_UNROLL
      for (int part = 0; part < tiles::depth / 16; ++part) {
        const int at = part * 8 + half * 2;
        const unsigned low = tc_pack(T{}, state.sums[at] * factor, state.sums[at + 1] * factor),
                       high =
                           tc_pack(T{}, state.sums[at + 4] * factor, state.sums[at + 5] * factor);
        const unsigned got = __shfl_xor_sync(0xffffffffu, odd ? low : high, 1);
        const int column = part * 16 + (odd ? 8 : 0) + lane % 4 / 2 * 4;
        if (row < p.rows && column < Depth)
          *reinterpret_cast<uint2 *>(to + column) =
              odd ? make_uint2(got, high) : make_uint2(low, got);
      }
    }
  }

  TC_MEMBER void run() {
    const int blocks = (p.rows + tiles::rows - 1) / tiles::rows,
              items = blocks * p.heads * p.batches;
    const float scale = p.scale * 1.4426950408889634f; // weights are powers of two
    unsigned query_parity = 0;
    if (group == tiles::groups - 1)
      end_turn(); // the first one's turn
    for (int round = 0; round * static_cast<int>(gridDim.x) < items; ++round) {
      const int turn = tc_attention_turn(round);
      if (turn >= items)
        break;
      const tc_attention_item item = tc_attention_item_of<Depth, Causal>(p, turn, blocks);
      const int first = item.block * tiles::rows, own_first = first + group * tc_group_rows;
      const int end = Causal && first + tiles::rows < p.columns ? first + tiles::rows : p.columns;
      const int own_end = own_first >= p.rows                         ? 0
                          : Causal && own_first + tc_group_rows < end ? own_first + tc_group_rows
                                                                      : end;
      const int steps = (end + tiles::keys - 1) / tiles::keys,
                own = (own_end + tiles::keys - 1) / tiles::keys;
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
      tc_wgmma_see_shared();
      if constexpr (tiles::holds_query) {
        tc_group_load(state, places.query() + group * (tc_group_rows * tc_group_line));
        release(places.query_free());
      }
      if constexpr (Mask::present)
        walk_masked(own, steps, item, scale);
      else
        walk(own, steps, scale);
      store(item.batch, item.head);
    }
  }
};

template <int Depth, int Groups, bool Causal, class T, class Mask>
TC_FN void tc_attention_by_groups(const tc_attention_problem<T, Mask> &p) {
  using tiles = tc_group_tiles<Depth, Groups, Mask::present>;
  TC_DYN_SMEM(unsigned char, shared);
  const tc_group_places<tiles> places{(tc_shared_address(shared) + 1023u) & ~1023u};
  if (threadIdx.x == 0) {
    constexpr int warps = tiles::groups * 4;
    tc_barrier_init(places.query_full(), tc_group_threads);
    tc_barrier_init(places.query_free(), warps);
    for (int stage = 0; stage < tiles::stages; ++stage) {
      tc_barrier_init(places.keys_full(stage), tc_group_threads);
      tc_barrier_init(places.values_full(stage), tc_group_threads);
      tc_barrier_init(places.keys_free(stage), warps);
      tc_barrier_init(places.values_free(stage), warps);
    }
    tc_barrier_fence_init();
  }
  __syncthreads();
  const int group = static_cast<int>(threadIdx.x) / tc_group_threads;
  if (group == tiles::groups) {
    tc_registers_give<tiles::bring_registers>();
    tc_attention_bring<Depth, Groups, Causal>(p, places);
  } else {
    tc_registers_take<tiles::compute_registers>();
    tc_attention_group<Depth, Groups, Causal, T, Mask>{p, places, group, {}, {}, {}, 0}.run();
  }
}

#endif
