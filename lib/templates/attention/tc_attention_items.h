// Which rows of which head a block computes, where blocks stay and compute one item after another.
#pragma once

#include "tc_attention.h"

/// Which rows of which head: items are numbered so that blocks at work at the same time share keys
/// and values, and under Causal longer ones come before shorter ones.
struct tc_attention_item {
  int block, head, batch;
};
/// `fits`: the L2 holds what blocks at work share. Blocks are numbered from the shortest.
template <bool Causal>
TC_FN tc_attention_item tc_attention_item_of(int item, int blocks, int heads_a_batch, int batches,
                                             bool fits) {
  const int heads = heads_a_batch * batches;
  int head = item / blocks, block = item % blocks;
  if constexpr (Causal) {
    // Neighbouring blocks of a head together; one at a time where the L2 holds everything.
    const int level = fits ? 1 : blocks < 32 ? 4 : (blocks + 7) / 8;
    const int first = item / (level * heads) * level; // counted from the longest
    const int here = blocks - first < level ? blocks - first : level;
    const int rest = item - first * heads;
    head = rest / here;
    block = blocks - 1 - first - rest % here;
  }
  return {block, head % heads_a_batch, head / heads_a_batch};
}
/// The items that this block computes, one after another: every second round of the blocks goes
/// backwards, which evens out what longer items cost.
template <int Depth, int Groups, bool Causal> struct tc_attention_walk {
  static constexpr int rows = Groups * tc_group_rows; // of an item
  int blocks, items, round = 0;
  template <class T, class Mask>
  TC_MEMBER explicit tc_attention_walk(const tc_attention_problem<T, Mask> &p)
      : blocks((p.rows + rows - 1) / rows), items(blocks * p.heads * p.batches) {}
  template <class T, class Mask>
  TC_MEMBER bool next(const tc_attention_problem<T, Mask> &p, tc_attention_item &item) {
    const int block = static_cast<int>(blockIdx.x), at_once = static_cast<int>(gridDim.x);
    const int place = round * at_once + (round % 2 ? at_once - 1 - block : block);
    ++round;
    if (place >= items) // of the last round alone
      return false;
    const bool fits = 4ll * Depth * p.columns * (p.heads * p.batches / p.group) <= (32ll << 20);
    item = tc_attention_item_of<Causal>(place, blocks, p.heads, p.batches, fits);
    return true;
  }
};
