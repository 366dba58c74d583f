// Of tc_attention_backward_groups.h: what a block holds and walks over, and the group of warps that
// brings it, by bulk copies, and adds what comes to queries to memory.
#pragma once

#include "tc_attention_backward.h"
#include "tc_attention_items.h"
#include "tc_pipeline.h"

template <int Depth, tc_backward_form Form> struct tc_backward_group_tiles {
  static constexpr tc_backward_form form = Form;
  static constexpr bool gathers = Form == tc_backward_form::gathered;
  static constexpr bool of_queries = Form == tc_backward_form::queries;
  static constexpr int step = tc_backward_group_step(Depth, Form);
  static constexpr int own = tc_backward_group_own;
  static constexpr int blocks = tc_attention_blocks(Depth);
  static constexpr int depth = tc_backward_group_depth(Depth);
  static constexpr int terms = (Depth + 15) / 16; // of 16 elements of depth
  static constexpr int stages = tc_backward_group_stages;
  static constexpr unsigned own_bytes = own * tc_group_line * blocks;
  static constexpr unsigned stage_bytes = step * tc_group_line * blocks;
  static constexpr unsigned passed_bytes = gathers ? own * step * 2 : 0;
  static constexpr unsigned piece_bytes = gathers ? tc_backward_group_piece * 4 : 0;
  static constexpr unsigned saved_bytes = step * 4;
  /// Of deep keys registers hold scores and weights: values are multiplied while what came to
  /// scores is found.
  static constexpr bool early = blocks > 1 && !of_queries;
  static constexpr int bring_registers = early ? 24 : 40, compute_registers = early ? 240 : 232;
};

/// What a block computes: `block`: of 128 keys, or queries; `head`: of them.
template <int Depth, tc_backward_form Form, bool Causal> struct tc_backward_walk {
  static constexpr bool of_queries = Form == tc_backward_form::queries;
  int blocks, items, round = 0;
  template <class Problem>
  TC_MEMBER explicit tc_backward_walk(const Problem &p)
      : blocks(((of_queries ? p.rows : p.columns) + tc_backward_group_own - 1) /
               tc_backward_group_own),
        items(blocks * heads(p) * p.batches) {}
  template <class Problem> TC_MEMBER static int heads(const Problem &p) {
    return of_queries ? p.heads : p.heads / p.group;
  }
  template <class Problem> TC_MEMBER bool next(const Problem &p, tc_attention_item &item) {
    const int block = static_cast<int>(blockIdx.x), at_once = static_cast<int>(gridDim.x);
    const int place = round * at_once + (round % 2 ? at_once - 1 - block : block);
    ++round;
    if (place >= items)
      return false;
    const long long shared =
        of_queries ? 4ll * p.columns * (p.heads / p.group) : 8ll * p.rows * p.heads;
    item = tc_attention_item_of<Causal>(place, blocks, heads(p), p.batches,
                                        shared * Depth * p.batches <= (32ll << 20));
    if constexpr (!of_queries)
      item.block = blocks - 1 - item.block; // the first keys are seen by most
    return true;
  }
};

template <class T> struct tc_backward_group_problem : tc_backward_problem<T, tc_unmasked> {
  tc_rows<T> own, other; // what comes to keys, or queries, and to values
  float *gathered; // what comes to queries, in pieces: [batch, head, step, group, 32, 128 threads]
  const tc_tensor_map *query_map, *key_map, *value_map, *above_map;
  int batches;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// Where things lie in shared memory.
template <class Tiles> struct tc_backward_places {
  unsigned start;
  TC_MEMBER unsigned own_first() const { return start; }
  TC_MEMBER unsigned own_second() const { return start + Tiles::own_bytes; }
  TC_MEMBER unsigned first(int stage) const {
    return start + 2 * Tiles::own_bytes + static_cast<unsigned>(stage) * Tiles::stage_bytes;
  }
  TC_MEMBER unsigned second(int stage) const { return first(Tiles::stages + stage); }
  TC_MEMBER unsigned passed(int turn) const {
    return first(2 * Tiles::stages) + static_cast<unsigned>(turn) * Tiles::passed_bytes;
  }
  TC_MEMBER unsigned piece(int group) const {
    return passed(2) + static_cast<unsigned>(group) * Tiles::piece_bytes;
  }
  TC_MEMBER unsigned sums(int stage) const {
    return piece(2) + static_cast<unsigned>(stage) * Tiles::saved_bytes;
  }
  TC_MEMBER unsigned shares(int stage) const { return sums(Tiles::stages + stage); }
  TC_MEMBER unsigned barrier(int i) const {
    return sums(2 * Tiles::stages) + static_cast<unsigned>(i) * 8;
  }
  TC_MEMBER unsigned own_first_full() const { return barrier(0); }
  TC_MEMBER unsigned own_second_full() const { return barrier(1); }
  TC_MEMBER unsigned own_free() const { return barrier(2); }
  TC_MEMBER unsigned piece_full(int group) const { return barrier(3 + group); }
  TC_MEMBER unsigned piece_free(int group) const { return barrier(5 + group); }
  TC_MEMBER unsigned first_full(int stage) const { return barrier(7 + stage); }
  TC_MEMBER unsigned first_free(int stage) const { return barrier(7 + Tiles::stages + stage); }
  TC_MEMBER unsigned second_full(int stage) const { return barrier(7 + 2 * Tiles::stages + stage); }
  TC_MEMBER unsigned second_free(int stage) const { return barrier(7 + 3 * Tiles::stages + stage); }
};

/// The rows of the other side of an item: those of one head of queries after another, or of a head
/// of keys.
template <class Tiles, bool Causal> struct tc_backward_range {
  int begin, end;
  template <class Problem>
  TC_MEMBER tc_backward_range(const Problem &p, const tc_attention_item &item)
      : begin(Causal && !Tiles::of_queries ? item.block * Tiles::own : 0),
        end(Tiles::of_queries ? (Causal && (item.block + 1) * Tiles::own < p.columns
                                     ? (item.block + 1) * Tiles::own
                                     : p.columns)
                              : p.rows) {}
};

// ---- bringing, and adding to memory

template <class Tiles, int Lines>
TC_FN void tc_backward_boxes(unsigned to, const tc_tensor_map *map, int first, int head, int batch,
                             unsigned full) {
  TC_UNROLL
  for (int block = 0; block < Tiles::blocks; ++block)
    tc_bulk_copy(to + block * (Lines * tc_group_line), map, block * tc_group_block, first, head,
                 batch, full);
}

/// By one thread.
template <class Tiles, int Depth, bool Causal, class T>
TC_FN void tc_backward_bring(const tc_backward_group_problem<T> &p,
                             const tc_backward_places<Tiles> &places) {
  constexpr bool of_queries = Tiles::of_queries;
  constexpr unsigned saved_bytes = of_queries ? 0 : Tiles::saved_bytes;
  tc_backward_walk<Depth, Tiles::form, Causal> items(p);
  tc_ring<Tiles::stages> ring;
  unsigned own_parity = 1;
  for (tc_attention_item item; items.next(p, item);) {
    const tc_backward_range<Tiles, Causal> range(p, item);
    if (range.begin >= range.end)
      continue;
    tc_barrier_wait(places.own_free(), own_parity);
    own_parity ^= 1;
    tc_barrier_expect(places.own_first_full(), Tiles::own_bytes);
    tc_backward_boxes<Tiles, Tiles::own>(places.own_first(), of_queries ? p.query_map : p.key_map,
                                         item.block * Tiles::own, item.head, item.batch,
                                         places.own_first_full());
    bool more = true; // the second tensor is not on its way
    const int heads = of_queries ? 1 : p.group;
    for (int head = of_queries ? item.head / p.group : item.head * p.group, left = heads; left > 0;
         ++head, --left) {
      long long saved = p.saved(item.batch, head, range.begin);
      for (int first = range.begin; first < range.end; first += Tiles::step) {
        tc_barrier_wait(places.first_free(ring.stage), ring.parity ^ 1);
        tc_barrier_expect(places.first_full(ring.stage), Tiles::stage_bytes + saved_bytes);
        tc_backward_boxes<Tiles, Tiles::step>(places.first(ring.stage),
                                              of_queries ? p.key_map : p.query_map, first, head,
                                              item.batch, places.first_full(ring.stage));
        if constexpr (!of_queries)
          tc_bulk_copy_bytes(places.sums(ring.stage), p.sums + saved, saved_bytes,
                             places.first_full(ring.stage));
        if (more) {
          more = false;
          tc_barrier_expect(places.own_second_full(), Tiles::own_bytes);
          tc_backward_boxes<Tiles, Tiles::own>(
              places.own_second(), of_queries ? p.above_map : p.value_map, item.block * Tiles::own,
              item.head, item.batch, places.own_second_full());
        }
        tc_barrier_wait(places.second_free(ring.stage), ring.parity ^ 1);
        tc_barrier_expect(places.second_full(ring.stage), Tiles::stage_bytes + saved_bytes);
        tc_backward_boxes<Tiles, Tiles::step>(places.second(ring.stage),
                                              of_queries ? p.value_map : p.above_map, first, head,
                                              item.batch, places.second_full(ring.stage));
        if constexpr (!of_queries)
          tc_bulk_copy_bytes(places.shares(ring.stage), p.shares + saved, saved_bytes,
                             places.second_full(ring.stage));
        saved += Tiles::step;
        ring.next();
      }
    }
  }
}

/// By one thread: what `group` found of every step.
template <class Tiles, int Depth, bool Causal, class T>
TC_FN void tc_backward_gather(const tc_backward_group_problem<T> &p,
                              const tc_backward_places<Tiles> &places, int group) {
  tc_backward_walk<Depth, Tiles::form, Causal> items(p);
  unsigned parity = 0;
  for (tc_attention_item item; items.next(p, item);) {
    const tc_backward_range<Tiles, Causal> range(p, item);
    for (int shared = 0; shared < p.group; ++shared) {
      float *to = p.gathered +
                  p.saved(item.batch, item.head * p.group + shared, range.begin) * Tiles::depth +
                  group * tc_backward_group_piece;
      for (int first = range.begin; first < range.end; first += Tiles::step) {
        tc_barrier_wait(places.piece_full(group), parity);
        parity ^= 1;
        tc_bulk_add(to, places.piece(group), Tiles::piece_bytes);
        tc_bulk_end_group();
        tc_bulk_wait_read();
        tc_barrier_arrive(places.piece_free(group));
        to += 2 * tc_backward_group_piece;
      }
    }
  }
  tc_bulk_wait();
}

template <class Tiles> TC_FN void tc_backward_init(const tc_backward_places<Tiles> &places) {
  constexpr int warps = 8; // that compute
  tc_barrier_init(places.own_first_full(), 1);
  tc_barrier_init(places.own_second_full(), 1);
  tc_barrier_init(places.own_free(), warps);
  for (int i = 0; i < 2; ++i) {
    tc_barrier_init(places.piece_full(i), warps / 2);
    tc_barrier_init(places.piece_free(i), 1);
  }
  for (int stage = 0; stage < Tiles::stages; ++stage) {
    tc_barrier_init(places.first_full(stage), 1);
    tc_barrier_init(places.second_full(stage), 1);
    tc_barrier_init(places.first_free(stage), warps);
    tc_barrier_init(places.second_free(stage), warps);
  }
  tc_barrier_fence_init();
}

#endif
