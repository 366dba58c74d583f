// What a group of warps that computes attention keeps, and its steps: scores, masks, weights, sums
// (sm_90a). tc_attention_groups.h says who does what when.
//
// Where there is a mask, keys lie in shared memory in an order of their own within 32, so that a
// thread's scores of a row are of 8 neighbouring keys and their mask is one access.
// tc_attention_key says which.
#pragma once

#include "tc_attention.h"
#include "tc_pipeline.h"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// The key, of a step, of a thread's score `i` (i % 4 < 2: of its first row); `lane` of its warp.
template <bool Ordered> TC_FN constexpr int tc_attention_key(int i, int lane) {
  return Ordered ? i / 16 * 32 + lane % 4 * 8 + i / 4 % 4 * 2 + i % 2
                 : i / 4 * 8 + lane % 4 * 2 + i % 2;
}

/// `Bulk`: bulk copies bring queries, keys and values, else threads do. `Ordered`: keys are in the
/// order of a mask in memory.
template <int Depth, int Groups, bool Masked, bool Ordered, bool Bulk> struct tc_group_tiles {
  static constexpr bool bulk = Bulk, ordered = Ordered;
  static constexpr int groups = Groups;
  static constexpr int rows = groups * tc_group_rows;
  static constexpr int keys = tc_attention_group_keys(Depth, Groups, Masked);
  static constexpr int stages = tc_attention_stages(Depth, Groups);
  static constexpr int blocks = tc_attention_blocks(Depth);
  static constexpr int steps = (Depth + 15) / 16;      // of 16 elements of depth
  static constexpr int depth = (Depth + 31) / 32 * 32; // that values are multiplied in
  /// Queries are read once: shared memory then serves keys and values alone.
  static constexpr bool holds_query = tc_attention_holds_query(Depth, Groups, Masked);
  static constexpr int query_slots = tc_attention_query_slots(Depth, Groups, Masked);
  /// An item's first scores are started before the last one's sums are stored.
  static constexpr bool ahead = holds_query || query_slots > 1;
  /// Three groups or four, whose products and weights alternate anyway, run the same text at
  /// different places: a short one is faster (depth 64 under causality: 2 to 12% of the time).
  static constexpr bool small = Groups >= 3;
  static constexpr unsigned stage_bytes = keys * tc_group_line * blocks;
  static constexpr unsigned query_bytes = rows * tc_group_line * blocks;
  /// Those of all groups are at most what the block starts with, 168 a thread, of three groups 128,
  /// of four 96:
  /// who takes more than is left waits for ever.
  static constexpr int bring_registers = bulk          ? 24
                                         : groups >= 3 ? 32
                                                       : 40,
                       compute_registers = groups == 4   ? 112
                                           : groups == 3 ? 160
                                           : bulk        ? 240
                                                         : 232;
  static_assert((4 * stages + 2 * query_slots) * 8 <= tc_group_barriers, "room for barriers");
  static_assert(bring_registers + groups * compute_registers <= (groups + 1) * (groups == 4 ? 96
                                                                                : groups == 3
                                                                                    ? 128
                                                                                    : 168),
                "registers of a block");
};

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
    const int key = first_key + tc_attention_key<Tiles::ordered>(i, lane);
    if (key >= columns || (Causal && key > state.row + i / 2 % 2 * 8))
      state.scores[i] = -TC_INF;
  }
}

/// Weights may be this power of two before earlier sums shrink: most steps then shrink nothing.
constexpr float tc_group_growth = 8.0f;

constexpr float tc_log2_e = 1.4426950408889634f;

/// Scores become weights against the base of their row, which follows the largest of them;
/// `smaller`: what earlier sums shrink by. Scores are powers of two times `scale`, or, Natural,
/// powers of e as they are, and so are their bases: a mask is then added as it is, also where it is
/// the lowest finite number, of which there is no multiple. Four largest and four totals at a time:
/// what waits for the one before it would take longest.
template <bool Natural, class Tiles>
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
    if constexpr (!Natural)
      largest = __fmul_rn(largest, scale);
    if (largest <= state.base[half] + (Natural ? tc_group_growth / tc_log2_e : tc_group_growth))
      largest = state.base[half];
    const float base = largest == -TC_INF ? 0.0f : largest;
    smaller[half] = tc_fast_exp2((state.base[half] - base) * (Natural ? tc_log2_e : 1.0f));
    state.base[half] = largest;
    float total[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    TC_UNROLL
    for (int i = half * 2; i < Tiles::keys / 2; i += 4)
      TC_UNROLL
    for (int j = i; j < i + 2; ++j) {
      state.scores[j] = tc_fast_exp2(Natural ? (state.scores[j] - base) * tc_log2_e
                                             : fmaf(state.scores[j], scale, -base));
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

/// The mask of a thread's scores of a step, added in powers of e.
/// -inf hides; a number that is finite stays finite, so that it drowns a score and rows that are
/// masked throughout have equal weights.
/// Functions are computed where the scores are. Which scores count is found before, a bit each;
/// steps without any are not computed.
template <class Tiles, class Mask> struct tc_group_mask {
  static_assert(Mask::computed && !Tiles::ordered, "others are tensors");
  static constexpr bool early = Mask::hides;
  static constexpr int count = Tiles::keys / 2; // scores of a thread
  const Mask *functions;
  float scale;
  int batch, head, row, rows, first_key, columns;
  unsigned seen[count / 32];

  template <class F> TC_MEMBER void for_scores(F f) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    TC_UNROLL
    for (int i = 0; i < count; ++i) {
      const int at = row + i / 2 % 2 * 8, key = first_key + tc_attention_key<false>(i, lane);
      f(i, at < rows ? at : rows - 1, key < columns ? key : columns - 1);
    }
  }
  template <class Problem>
  TC_MEMBER void load(const Problem &p, int of_batch, int of_head, int of_row, int key,
                      bool whole) {
    functions = &p.mask;
    scale = p.scale;
    batch = of_batch;
    head = of_head;
    row = of_row;
    rows = p.rows;
    first_key = key;
    columns = p.columns;
    TC_UNROLL
    for (int word = 0; word < count / 32; ++word)
      seen[word] = whole || !Mask::hides ? ~0u : 0u;
    if constexpr (Mask::hides)
      if (!whole)
        for_scores([&](int i, int at, int column) {
          seen[i / 32] |= (functions->seen(batch, head, at, column) ? 1u : 0u) << i % 32;
        });
  }
  TC_MEMBER bool sees(int, int) const {
    bool result = false;
    TC_UNROLL
    for (int word = 0; word < count / 32; ++word)
      result = result || seen[word] != 0;
    return result;
  }
  /// Scores as they count, in powers of e.
  TC_MEMBER void add(float (&scores)[count], float) const {
    for_scores([&](int i, int at, int column) {
      scores[i] = (seen[i / 32] >> i % 32 & 1u) != 0
                      ? functions->changed(scores[i] * scale, batch, head, at, column)
                      : -TC_INF;
    });
  }
};

template <class Tiles> struct tc_group_mask<Tiles, tc_no_mask> {};

template <class Tiles, class M, int Run> struct tc_group_mask<Tiles, tc_mask<M, Run>> {
  static constexpr int runs = Tiles::keys / 32;
  /// Registers hold it beside sums and scores: it is loaded before the scores are there, and steps
  /// that it hides altogether are not computed.
  static constexpr bool early = Tiles::depth <= 64 || (Tiles::depth <= 128 && sizeof(M) <= 2);
  tc_vec<M, 8> added[2][runs]; // of the two rows: runs of 8 keys

  template <class Problem>
  TC_MEMBER void load(const Problem &p, int batch, int head, int row, int first_key, bool) {
    const tc_mask<M, Run> &mask = p.mask;
    const int rows = p.rows, columns = p.columns;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    TC_UNROLL
    for (int half = 0; half < 2; ++half) {
      const int at = row + half * 8 < rows ? row + half * 8 : rows - 1;
      const M *line = tc_mask_row(mask, batch, head, at);
      TC_UNROLL
      for (int run = 0; run < runs; ++run) {
        const int key = first_key + run * 32 + lane % 4 * 8;
        TC_UNROLL
        for (int j = 0; j < 8; j += Run)
          if constexpr (Run == 1) {
            added[half][run].at[j] = key + j < columns ? line[(key + j) * mask.column_stride] : M{};
          } else {
            const tc_vec<M, Run> some = tc_load_vec_where<Run>(key + j < columns, line + key + j);
            TC_UNROLL
            for (int k = 0; k < Run; ++k)
              added[half][run].at[j + k] = some.at[k];
          }
      }
    }
  }
  TC_FN bool hides(bool visible) { return !visible; }
  template <class E> TC_FN bool hides(E value) { return tc_get(value) == -TC_INF; }
  /// 32 bits of a mask that hides all that they say of.
  TC_FN unsigned hiding_word(bool) { return 0u; }
  TC_FN unsigned hiding_word(float) { return 0xff800000u; }
  TC_FN unsigned hiding_word(tc_f16) { return 0xfc00fc00u; }
  TC_FN unsigned hiding_word(tc_bf16) { return 0xff80ff80u; }
  /// Whether some score may be seen, of those that there are.
  TC_MEMBER bool sees(int first_key, int columns) const {
    if (first_key + Tiles::keys <= columns) {
      unsigned differs = 0;
      TC_UNROLL
      for (int half = 0; half < 2; ++half)
        TC_UNROLL
      for (int run = 0; run < runs; ++run) {
        unsigned words[sizeof(M) * 2];
        memcpy(words, &added[half][run], sizeof words);
        TC_UNROLL
        for (int i = 0; i < static_cast<int>(sizeof(M)) * 2; ++i)
          differs |= words[i] ^ hiding_word(M{});
      }
      return differs != 0;
    }
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
    return fmaf(score, scale, tc_get(value));
  }
  TC_MEMBER void add(float (&scores)[Tiles::keys / 2], float scale) const {
    TC_UNROLL
    for (int i = 0; i < Tiles::keys / 2; ++i)
      scores[i] = masked(scores[i], scale, added[i / 2 % 2][i / 16].at[i / 4 % 4 * 2 + i % 2]);
  }
};

#endif
