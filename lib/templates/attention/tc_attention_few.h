// Attention of few queries over many keys (decoding with a cache): memory is what it takes, so that
// every key and value is read once and enough of them are under way.
//
// Queries of all heads that share keys are the rows of a block, at most 64, in tiles of 16. Keys
// are cut into parts, one a block, whose groups of four warps take every so many steps of 64 keys,
// in shared memory of their own: a warp has the rows of one tile and 16, 32 or 64 keys of a step.
// At the end the warps' sums become one. Of several parts a block leaves sums of weighted values,
// what weights are relative to and their totals, in float32, and who reads them puts the parts
// together; of one part it leaves the result.
//
// Keys and values lie in memory (tc_rows), or are computed as they are read: numbers of 8 bits
// times their scales, rows of pages that a table names. Such an operand is a type of runs of a
// key's row (tc_operand_runs.h; place: batch, head, key), with
//   copied    memory has a run as it is: its words go where products read them
// Words of other runs wait in shared memory, a step's for each stage, where the thread that brought
// them finds them; it puts the elements where products read them when all warps have read the last
// step's.
#pragma once

#include "tc_attention.h"
#include "tc_operand_runs.h"
#include "tc_pipeline.h"

/// Keys or values in memory, which bulk copies bring where the device has them.
template <class T> struct tc_few_boxes {
  tc_rows<const T> rows;
  const tc_tensor_map *map;
};

/// Where results go. Of parts: [parts, batches, heads, rows], sums with a last dimension of depth;
/// bases are powers of two.
struct tc_few_results {
  float *sums, *bases, *totals;
  int parts;
  long long keys; // of a part
};

template <class T, class Mask>
TC_FN long long tc_few_place(const tc_attention_problem<T, Mask> &p, int part, int batch, int head,
                             int row) {
  return ((static_cast<long long>(part) * p.batches + batch) * p.heads + head) * p.rows + row;
}
/// The keys of a part that some query may see end before this one.
template <bool Causal, class T, class Mask>
TC_FN int tc_few_end(const tc_attention_problem<T, Mask> &p, const tc_few_results &to, int part) {
  long long end = (part + 1) * to.keys;
  end = end < p.columns ? end : p.columns;
  return static_cast<int>(Causal && p.rows < end ? p.rows : end);
}

#ifndef TC_DEVICE

/// Neighbouring columns.
struct tc_few_columns {
  int first, count;
  TC_MEMBER int key(int step) const { return first + step; }
  TC_MEMBER bool is_whole(int) const { return false; }
};

template <int Depth, class T> struct tc_few_row {
  T at[Depth];
  TC_MEMBER const T &operator[](int i) const { return at[i]; }
};
/// Of an operand that is computed, rows as products of T have them.
template <class T, class Source> struct tc_few_rows { const Source &source; };
template <int Depth, class T, class Source>
TC_FN tc_few_row<Depth, T> tc_operand_row(const tc_few_rows<T, Source> &rows, int batch, int head,
                                          int key) {
  tc_few_row<Depth, T> row;
  for (int n = 0; n < Depth / Source::run; ++n) {
    constexpr int count = Source::words > 0 ? Source::words : 1;
    const void *at[count];
    rows.source.places(batch, head, key, n, at);
    tc_operand_word words[count];
    for (int k = 0; k < Source::words; ++k)
      words[k] = *static_cast<const tc_operand_word *>(at[k]);
    float values[Source::run];
    rows.source.values(words, rows.source.ahead(batch, head, key, n), batch, head, key, n, values);
    for (int i = 0; i < Source::run; ++i)
      tc_store(row.at + n * Source::run + i, values[i]);
  }
  return row;
}
template <class T> TC_FN tc_rows<const T> tc_few_rows_of(T, const tc_rows<const T> &rows) {
  return rows;
}
template <class T> TC_FN tc_rows<const T> tc_few_rows_of(T, const tc_few_boxes<T> &boxes) {
  return boxes.rows;
}
template <class T, class Source>
TC_FN tc_few_rows<T, Source> tc_few_rows_of(T, const Source &source) {
  return {source};
}

/// Rows first to first + 63 of those that share the keys of `key_head`.
template <int Depth, int Tiles, int Stages, int Groups, bool Causal, bool Parts, bool Skips,
          class T, class Mask, class Keys, class Values>
TC_FN void tc_few_block(const tc_attention_problem<T, Mask> &p, const tc_few_results &to,
                        const Keys &keys, const Values &values, int part, int key_head, int first,
                        int batch) {
  if (threadIdx.x != 0)
    return;
  const int from = static_cast<int>(part * to.keys), end = tc_few_end<Causal>(p, to, part);
  for (int i = first; i < first + Tiles * 16 && i < p.group * p.rows; ++i) {
    const int head = key_head * p.group + i / p.rows, row = i % p.rows;
    float sums[Depth], largest, total;
    const int visible = Causal && row + 1 < end ? row + 1 : end;
    const tc_few_columns columns = {from, visible > from ? visible - from : 0};
    tc_attention_row<Depth>(p, tc_few_rows_of(T{}, keys), tc_few_rows_of(T{}, values), batch, head,
                            row, columns, sums, largest, total);
    if constexpr (Parts) {
      const long long place = tc_few_place(p, part, batch, head, row);
      to.bases[place] = largest * 1.4426950408889634f;
      to.totals[place] = total;
      for (int j = 0; j < Depth; ++j)
        to.sums[place * Depth + j] = sums[j];
    } else {
      if (float *saved = tc_attention_sums(p, batch, head))
        saved[row] = total == 0.0f ? -TC_INF : largest + __builtin_logf(total);
      T *out = tc_row(p.out, batch, head, row);
      for (int j = 0; j < Depth; ++j) // a row that sees nothing is zero
        tc_store(out + j, total == 0.0f ? 0.0f : sums[j] / total);
    }
  }
}

#else

template <int Depth, int Tiles> struct tc_few_tiles_of {
  static constexpr int depth = tc_attention_depth(Depth), steps = depth / 16;
  static constexpr int threads = tc_few_threads, pitch = tc_attention_pitch(Depth);
  static constexpr int tensor = tc_few_keys * pitch; // elements of a step
  static constexpr int rows = 16 * Tiles;
  static constexpr int shares = 4 / Tiles; // of a step's keys
  static constexpr int key_tiles = tc_few_keys / shares / 8;
  /// Queries in registers, in steps of 16 terms; sums of deep values leave room for one.
  static constexpr int held = Depth > 128 ? 1 : steps;
};

/// Of a group.
TC_FN int tc_few_thread() { return static_cast<int>(threadIdx.x) % tc_few_threads; }

/// What a lane's two rows are.
struct tc_few_lane {
  int heads[2], rows[2];
};

/// The left operand of 16 terms from `16 * step` on; `queries`: the lane's two rows.
template <int Depth, class T>
TC_FN void tc_few_load(unsigned (&query)[4], const T *const (&queries)[2], int step) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int half = 0; half < 2; ++half)
    TC_UNROLL
  for (int part = 0; part < 2; ++part) {
    const int column = step * 16 + part * 8;
    query[half + part * 2] =
        column < Depth ? *reinterpret_cast<const unsigned *>(queries[half] + column + lane % 4 * 2)
                       : 0u;
  }
}

/// Rows of a step in shared memory, from `first` on: where 16-byte words of them are.
template <bool Boxed, int Pitch> struct tc_few_lines {
  unsigned base;
  int first;
  TC_MEMBER unsigned word(int row, int word) const {
    if constexpr (Boxed) // the line's number permutes its words
      return base + static_cast<unsigned>(word / 8 * tc_few_keys * tc_group_line) +
             tc_swizzled(first + row, word);
    else
      return base + static_cast<unsigned>(((first + row) * Pitch + word * 8) * 2);
  }
};

/// Scores, weights and sums of the warp's keys of a step.
template <class Tiles, int Depth, bool Causal, class T, class Mask, class Lines>
TC_FN void tc_few_step(tc_attention_state<Depth> &state, float (&scores)[Tiles::key_tiles][4],
                       unsigned (&query)[Tiles::held][4], const T *const (&queries)[2],
                       const tc_attention_problem<T, Mask> &p, const tc_few_lane &own,
                       const Lines &keys, const Lines &values, int first_column, int end) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int k = 0; k < Tiles::steps; ++k) {
    unsigned(&left)[4] = query[Tiles::held == 1 ? 0 : k];
    if constexpr (Tiles::held == 1)
      tc_few_load<Depth>(left, queries, k);
    TC_UNROLL
    for (int n = 0; n < Tiles::key_tiles; n += 2) {
      unsigned b[4];
      tc_load_matrices<false>(b, keys.word(n * 8 + lane / 16 * 8 + lane % 8, k * 2 + lane / 8 % 2));
      tc_multiply(T{}, scores[n], left, b[0], b[1]);
      tc_multiply(T{}, scores[n + 1], left, b[2], b[3]);
    }
  }
  if (Causal || first_column + Tiles::key_tiles * 8 > end)
    tc_hide<Causal>(scores, own.rows, first_column, end);
  tc_weigh<Depth>(scores, state, p.scale * 1.4426950408889634f); // weights are powers of two
  TC_UNROLL
  for (int k = 0; k < Tiles::key_tiles / 2; ++k) {
    unsigned weights[4];
    TC_UNROLL
    for (int i = 0; i < 4; ++i)
      weights[i] =
          tc_pack(T{}, scores[2 * k + i / 2][i % 2 * 2], scores[2 * k + i / 2][i % 2 * 2 + 1]);
    TC_UNROLL
    for (int n = 0; n < Tiles::depth / 8; n += 2) {
      unsigned b[4];
      tc_load_matrices<true>(b, values.word(k * 16 + lane / 8 % 2 * 8 + lane % 8, n + lane / 16));
      tc_multiply(T{}, state.sums[n], weights, b[0], b[1]);
      tc_multiply(T{}, state.sums[n + 1], weights, b[2], b[3]);
    }
  }
}

/// The warps' sums of the same rows, in shared memory; bases and totals behind them.
template <class Tiles, int Groups> struct tc_few_found {
  static constexpr int shares = Tiles::shares * Groups;
  float *sums; // [shares, rows, depth]
  TC_MEMBER float *base(int share, int row) const {
    return sums + shares * Tiles::rows * Tiles::depth + share * Tiles::rows + row;
  }
  TC_MEMBER float *total(int share, int row) const {
    return base(share, row) + shares * Tiles::rows;
  }
};

template <int Depth, class Tiles, int Groups>
TC_FN void tc_few_leave(const tc_few_found<Tiles, Groups> &found, tc_attention_state<Depth> &state,
                        int share, int first_row) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + lane / 4 + half * 8;
    float total = state.totals[half];
    total += __shfl_xor_sync(0xffffffffu, total, 1);
    total += __shfl_xor_sync(0xffffffffu, total, 2);
    if (lane % 4 == 0) {
      *found.base(share, row) = state.largest[half];
      *found.total(share, row) = total;
    }
    float *sums = found.sums + (share * Tiles::rows + row) * Tiles::depth + lane % 4 * 2;
    TC_UNROLL
    for (int n = 0; n < Tiles::depth / 8; ++n) {
      sums[n * 8] = state.sums[n][half * 2];
      sums[n * 8 + 1] = state.sums[n][half * 2 + 1];
    }
  }
}

/// All warps' sums as one; a thread has four neighbouring columns of a row.
template <int Depth, bool Parts, class Tiles, int Groups, class T, class Mask>
TC_FN void tc_few_write(const tc_few_found<Tiles, Groups> &found,
                        const tc_attention_problem<T, Mask> &p, const tc_few_results &to, int part,
                        int key_head, int first, int batch) {
  constexpr int columns = Depth / 4;
  for (int word = static_cast<int>(threadIdx.x); word < Tiles::rows * columns;
       word += Groups * Tiles::threads) {
    const int in_block = word / columns, column = word % columns * 4, i = first + in_block;
    if (i >= p.group * p.rows)
      break;
    const int head = key_head * p.group + i / p.rows, row = i % p.rows;
    float largest = -TC_INF;
    TC_UNROLL
    for (int share = 0; share < found.shares; ++share)
      largest = fmaxf(largest, *found.base(share, in_block));
    const float base = largest == -TC_INF ? 0.0f : largest;
    float total = 0.0f, sums[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    TC_UNROLL
    for (int share = 0; share < found.shares; ++share) {
      const float smaller = tc_fast_exp2(*found.base(share, in_block) - base);
      total += smaller * *found.total(share, in_block);
      TC_UNROLL
      for (int j = 0; j < 4; ++j)
        sums[j] +=
            smaller * found.sums[(share * Tiles::rows + in_block) * Tiles::depth + column + j];
    }
    if constexpr (Parts) {
      const long long place = tc_few_place(p, part, batch, head, row);
      *reinterpret_cast<float4 *>(to.sums + place * Depth + column) =
          make_float4(sums[0], sums[1], sums[2], sums[3]);
      if (column == 0) {
        to.bases[place] = largest;
        to.totals[place] = total;
      }
    } else {
      const float factor = total == 0.0f ? 0.0f : 1.0f / total; // a row that sees nothing is zero
      T *out = tc_row(p.out, batch, head, row) + column;
      *reinterpret_cast<uint2 *>(out) =
          make_uint2(tc_pack(T{}, sums[0] * factor, sums[1] * factor),
                     tc_pack(T{}, sums[2] * factor, sums[3] * factor));
      if (float *saved = tc_attention_sums(p, batch, head); saved != nullptr && column == 0)
        saved[row] = tc_log_of_sum(base, total);
    }
  }
}

/// Keys or values of a part on their way into shared memory.
template <class Tiles, int Depth, int Stages, class Source> struct tc_few_operand;

/// In memory: as they are, for every stage.
template <class Tiles, int Depth, int Stages, class T>
struct tc_few_operand<Tiles, Depth, Stages, tc_rows<const T>> {
  static constexpr bool computed = false, boxed = false;
  static constexpr int step_bytes = tc_few_step_bytes(Depth), once_bytes = 0; // shared memory
  const tc_rows<const T> &source;
  unsigned short *shared;
  TC_MEMBER void start(int, int, int, int) {}
  TC_MEMBER void copy(int step, int batch, int head, int first, int end) {
    tc_copy_rows<Tiles, Depth, tc_few_keys>(shared + step % Stages * Tiles::tensor, source, batch,
                                            head, first, end);
  }
  TC_MEMBER void ahead(int, int, int, int) {}
  TC_MEMBER void put(int, int, int, int, int) {}
  TC_MEMBER const unsigned short *at(int step) const {
    return shared + step % Stages * Tiles::tensor;
  }
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
/// By bulk copies of one thread.
template <class Tiles, int Depth, int Stages, class T>
struct tc_few_operand<Tiles, Depth, Stages, tc_few_boxes<T>> {
  static constexpr bool computed = false, boxed = true;
  static constexpr int step_bytes = tc_few_boxed_bytes(Depth), once_bytes = 0;
  const tc_few_boxes<T> &source;
  unsigned short *shared;
  /// Of the barriers of all stages, the first of which is `full`; of one; that `parity` is over.
  TC_MEMBER void prepare(unsigned full) const {
    for (int stage = 0; stage < Stages; ++stage)
      tc_barrier_init(full + 8u * stage, 1);
    tc_barrier_fence_init();
  }
  TC_MEMBER void expect(unsigned barrier) const { // keys and values
    tc_barrier_expect(barrier, 2 * tc_few_box_bytes(Depth));
  }
  TC_MEMBER void wait(unsigned barrier, unsigned parity) const { tc_barrier_wait(barrier, parity); }
  TC_MEMBER void start(int, int, int, int) {}
  TC_MEMBER void copy(int step, int batch, int head, int first, unsigned full) {
    const unsigned to = tc_shared_address(at(step));
    TC_UNROLL
    for (int block = 0; block < tc_attention_blocks(Depth); ++block)
      tc_bulk_copy(to + static_cast<unsigned>(block * tc_few_keys * tc_group_line), source.map,
                   block * tc_group_block, first, head, batch, full);
  }
  TC_MEMBER void ahead(int, int, int, int) {}
  TC_MEMBER void put(int, int, int, int, int) {}
  TC_MEMBER const unsigned short *at(int step) const {
    return shared + step % Stages * (step_bytes / 2);
  }
};
#endif

/// Computed as they are read.
template <class Tiles, int Depth, int Stages, class Source> struct tc_few_operand {
  static constexpr bool computed = !Source::copied, boxed = false;
  static constexpr int runs = Depth / Source::run; // of a key
  static constexpr int each = tc_few_runs(Depth, Source::run), words = Source::words;
  static constexpr int count = words > 0 ? words : 1;
  static constexpr int step_bytes = computed ? tc_few_words_bytes(Depth, Source::run, words)
                                             : tc_few_step_bytes(Depth),
                       once_bytes = computed ? tc_few_step_bytes(Depth) : 0;
  /// What does not wait in shared memory waits in registers, if that is not too much.
  static constexpr int narrow_bytes = static_cast<int>(sizeof(typename Source::narrow)),
                       fit = narrow_bytes > 128 ? 1 : 128 / narrow_bytes;
  static constexpr bool held = each <= fit;
  const Source &source;
  unsigned short *shared;
  typename Source::narrow next[!computed ? 1 : held ? each : fit];

  /// Run k of this thread, its key being held to those before `end`: false if there is none.
  struct run {
    int row, n, key;
    bool inside;
  };
  TC_MEMBER static bool find(int k, int first, int end, run &found) {
    const int i = k * Tiles::threads + tc_few_thread();
    found.row = i / runs;
    found.n = i % runs;
    found.inside = first + found.row < end;
    found.key = found.inside ? first + found.row : end - 1;
    return tc_few_keys * runs % Tiles::threads == 0 || i < tc_few_keys * runs;
  }
  TC_MEMBER unsigned word_at(int step, int k, int word) const {
    return tc_shared_address(shared) + once_bytes + step % Stages * step_bytes +
           static_cast<unsigned>((k * words + word) * Tiles::threads + tc_few_thread()) * 16;
  }
  TC_MEMBER void store(const run &own, const unsigned (&pairs)[Source::run / 2]) {
    TC_UNROLL
    for (int i = 0; i < Source::run / 2; i += 4)
      tc_shared_store(
          tc_shared_address(shared + own.row * Tiles::pitch + own.n * Source::run + i * 2),
          pairs[i], pairs[i + 1], pairs[i + 2], pairs[i + 3]);
  }
  /// Elements behind a row's last one are zeros.
  TC_MEMBER void start(int batch, int head, int first, int end) {
    if constexpr (Tiles::depth > Depth)
      for (int i = tc_few_thread(); i < (computed ? 1 : Stages) * tc_few_keys; i += Tiles::threads)
        tc_shared_store(tc_shared_address(shared + i * Tiles::pitch + Depth), 0u, 0u, 0u, 0u);
    if (first < end)
      ahead(batch, head, first, end);
  }
  TC_MEMBER void copy(int step, int batch, int head, int first, int end) {
    TC_UNROLL
    for (int k = 0; k < each; ++k) {
      run own;
      if (!find(k, first, end, own))
        break;
      const void *at[count];
      source.places(batch, head, own.key, own.n, at);
      TC_UNROLL
      for (int word = 0; word < words; ++word)
        if constexpr (computed)
          tc_async_copy(word_at(step, k, word), at[word], true);
        else
          tc_async_copy(tc_shared_address(shared + step % Stages * Tiles::tensor +
                                          own.row * Tiles::pitch + own.n * Source::run + word * 8),
                        at[word], own.inside);
    }
  }
  /// What does not wait in shared memory, of the step that is put next.
  TC_MEMBER void ahead(int batch, int head, int first, int end) {
    if constexpr (computed && held) {
      TC_UNROLL
      for (int k = 0; k < each; ++k) {
        run own;
        if (find(k, first, end, own))
          next[k] = source.ahead(batch, head, own.key, own.n);
      }
    }
  }
  /// The same of the next few runs from run k on, where all would be too many registers.
  TC_MEMBER void look(int k, int batch, int head, int first, int end) {
    TC_UNROLL
    for (int i = 0; i < fit; ++i) {
      run own;
      if (k + i < each && find(k + i, first, end, own))
        next[i] = source.ahead(batch, head, own.key, own.n);
    }
  }
  TC_MEMBER void put(int step, int batch, int head, int first, int end) {
    if constexpr (computed) {
      TC_UNROLL
      for (int k = 0; k < each; ++k) {
        run own;
        if (!find(k, first, end, own))
          break;
        if constexpr (!held)
          if (k % fit == 0)
            look(k, batch, head, first, end);
        tc_operand_word waited[count];
        TC_UNROLL
        for (int word = 0; word < words; ++word)
          tc_shared_load(waited[word].at, word_at(step, k, word));
        unsigned pairs[Source::run / 2];
        source.factors(waited, next[held ? k : k % fit], batch, head, own.key, own.n, pairs);
        store(own, pairs);
        if (first + tc_few_keys > end && !own.inside) {
          unsigned zeros[Source::run / 2] = {};
          store(own, zeros);
        }
      }
    }
  }
  TC_MEMBER const unsigned short *at(int step) const {
    return shared + (computed ? 0 : step % Stages * Tiles::tensor);
  }
};

template <int Depth, int Tiles, int Stages, int Groups, bool Causal, bool Parts, bool Skips,
          class T, class Mask, class Keys, class Values>
TC_FN void tc_few_block(const tc_attention_problem<T, Mask> &p, const tc_few_results &to,
                        const Keys &key_source, const Values &value_source, int part, int key_head,
                        int first, int batch) {
  using tiles = tc_few_tiles_of<Depth, Tiles>;
  using key_operand = tc_few_operand<tiles, Depth, Stages, Keys>;
  using value_operand = tc_few_operand<tiles, Depth, Stages, Values>;
  constexpr bool computes = key_operand::computed || value_operand::computed;
  constexpr int key_bytes = key_operand::once_bytes + Stages * key_operand::step_bytes,
                value_bytes = value_operand::once_bytes + Stages * value_operand::step_bytes;
  TC_DYN_SMEM(unsigned short, shared);
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = tc_few_thread() / 32;
  const int group = Groups == 1 ? 0 : tc_of_warp(static_cast<int>(threadIdx.x) / tc_few_threads);
  const int tile = warp % Tiles, share = warp / Tiles;
  const int from = static_cast<int>(part * to.keys), end = tc_few_end<Causal>(p, to, part);
  const int all = end > from ? (end - from + tc_few_keys - 1) / tc_few_keys : 0;
  const int steps = (all - group + Groups - 1) / Groups; // of this group
  const auto first_key = [&](int step) { return from + (step * Groups + group) * tc_few_keys; };
  const auto any = [&](bool vote) { // as sync: of the group
    if constexpr (Groups == 1)
      return __syncthreads_or(vote) != 0;
    else
      return tc_group_any(1 + group, tc_few_threads, vote);
  };
  const auto sync = [&] {
    if constexpr (Groups == 1)
      __syncthreads();
    else
      tc_group_sync(1 + group, tc_few_threads);
  };
  constexpr bool boxed = key_operand::boxed;
  static_assert(boxed == value_operand::boxed, "both come by bulk copies, or none");
  constexpr int group_bytes = key_bytes + value_bytes + (boxed ? tc_few_boxed_once : 0);
  unsigned short *own_shared = shared + group * (group_bytes / 2);
  unsigned full = 0; // barriers of stages that come by bulk copies
  unsigned phases = 0;
  if constexpr (boxed) {
    own_shared += (1024 - tc_shared_address(own_shared) % 1024) % 1024 / 2;
    full = tc_shared_address(own_shared) + key_bytes + value_bytes;
  }
  key_operand key = {key_source, own_shared};
  value_operand value = {value_source, own_shared + key_bytes / 2};
  if constexpr (boxed) {
    if (tc_few_thread() == 0)
      key.prepare(full);
    sync();
  }
  key.start(batch, key_head, first_key(0), end);
  value.start(batch, key_head, first_key(0), end);
  const auto copy_step = [&](int step) {
    if constexpr (boxed) {
      if (step < steps && tc_few_thread() == 0) {
        const unsigned barrier = full + 8u * (step % Stages);
        key.expect(barrier);
        key.copy(step, batch, key_head, first_key(step), barrier);
        value.copy(step, batch, key_head, first_key(step), barrier);
      }
    } else {
      if (step < steps) {
        key.copy(step, batch, key_head, first_key(step), end);
        value.copy(step, batch, key_head, first_key(step), end);
      }
      tc_async_end_group();
    }
  };
  TC_UNROLL
  for (int step = 0; step < Stages - 1; ++step)
    copy_step(step);

  tc_few_lane own;
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int i = first + tile * 16 + lane / 4 + half * 8;
    const int inside = i < p.group * p.rows ? i : p.group * p.rows - 1;
    own.heads[half] = key_head * p.group + inside / p.rows;
    own.rows[half] = inside % p.rows;
  }
  const T *const queries[2] = {tc_row(p.query, batch, own.heads[0], own.rows[0]),
                               tc_row(p.query, batch, own.heads[1], own.rows[1])};
  unsigned query[tiles::held][4];
  if constexpr (tiles::held > 1) {
    TC_UNROLL
    for (int k = 0; k < tiles::steps; ++k)
      tc_few_load<Depth>(query[k], queries, k);
  }
  // What this thread has seen of the mask for the next step that is brought; which steps of those
  // on their way count, the last one brought lowest. The first ones come unasked.
  bool seen = false;
  unsigned counting = ~0u;
  const auto look = [&](int step) {
    if constexpr (Skips) {
      const int column = first_key(step) + tc_few_thread();
      seen = tc_few_thread() < tc_few_keys && column < end &&
             tc_mask_value(tc_mask_row(p.mask, batch, own.heads[0],
                                       own.rows[0])[column * p.mask.column_stride]) != -TC_INF;
    }
  };
  if constexpr (Skips)
    look(Stages - 1);
  tc_attention_state<Depth> state;
  TC_UNROLL
  for (int n = 0; n < tiles::depth / 8; ++n)
    TC_UNROLL
  for (int j = 0; j < 4; ++j)
    state.sums[n][j] = 0.0f;
  TC_UNROLL
  for (int half = 0; half < 2; ++half) {
    state.largest[half] = -TC_INF;
    state.totals[half] = 0.0f;
  }
  for (int step = 0; step < steps; ++step) {
    const int first_column = first_key(step) + share * tiles::key_tiles * 8;
    const bool counts = !Skips || (counting >> (Stages - 2) & 1) != 0;
    float scores[tiles::key_tiles][4];
    if constexpr (Mask::present) {
      if (counts)
        tc_start_rows<tiles::key_tiles>(scores, p,
                                        {tc_mask_row(p.mask, batch, own.heads[0], own.rows[0]),
                                         tc_mask_row(p.mask, batch, own.heads[1], own.rows[1])},
                                        first_column);
    } else {
      tc_start_scores<tiles::key_tiles>(scores, p, 0, 0, 0, 0);
    }
    if constexpr (boxed) {
      if (counts) {
        key.wait(full + 8u * (step % Stages), phases >> step % Stages & 1);
        phases ^= 1u << step % Stages;
      }
    } else {
      tc_async_wait<Stages - 2>();
    }
    // The step ahead comes where all warps have read the step before.
    if constexpr (Skips) {
      counting = counting << 1 | (any(seen) ? 1u : 0u);
      if (counting & 1)
        copy_step(step + Stages - 1);
      else if constexpr (!boxed)
        tc_async_end_group();
      look(step + Stages);
    } else {
      sync();
      copy_step(step + Stages - 1);
    }
    if constexpr (computes) {
      if (counts) {
        key.put(step, batch, key_head, first_key(step), end);
        value.put(step, batch, key_head, first_key(step), end);
      }
      if (step + 1 < steps) {
        key.ahead(batch, key_head, first_key(step + 1), end);
        value.ahead(batch, key_head, first_key(step + 1), end);
      }
      sync();
    }
    using lines = tc_few_lines<boxed, tiles::pitch>;
    constexpr int own_keys = tiles::key_tiles * 8;
    if (counts)
      tc_few_step<tiles, Depth, Causal>(state, scores, query, queries, p, own,
                                        lines{tc_shared_address(key.at(step)), share * own_keys},
                                        lines{tc_shared_address(value.at(step)), share * own_keys},
                                        first_column, end);
  }
  tc_async_wait<0>();
  __syncthreads();
  const tc_few_found<tiles, Groups> found = {reinterpret_cast<float *>(shared)};
  tc_few_leave<Depth>(found, state, group * tiles::shares + share, tile * 16);
  __syncthreads();
  tc_few_write<Depth, Parts>(found, p, to, part, key_head, first, batch);
}

#endif

/// Boxes, where the device has bulk copies.
template <class Source> TC_FN const Source &tc_few_brought(const Source &source) { return source; }
#if defined(TC_DEVICE) && !defined(__CUDA_ARCH_FEAT_SM90_ALL)
template <class T> TC_FN const tc_rows<const T> &tc_few_brought(const tc_few_boxes<T> &boxes) {
  return boxes.rows;
}
#endif

/// A block for each part, each 64 rows of each head of keys, and each batch. `keys`, `values`: in
/// memory, or computed as they are read. `Skips`: all rows of a block have one row of the mask, and
/// steps that it hides altogether are not brought.
template <int Depth, int Tiles, int Stages, int Groups, bool Causal, bool Parts, bool Skips,
          class T, class Mask, class Keys, class Values>
TC_FN void tc_attention_few(const tc_attention_problem<T, Mask> &p, const tc_few_results &to,
                            const Keys &keys, const Values &values) {
  const int blocks = (p.group * p.rows + Tiles * 16 - 1) / (Tiles * 16); // of a head
  const int at = static_cast<int>(blockIdx.y);
  tc_few_block<Depth, Tiles, Stages, Groups, Causal, Parts, Skips>(
      p, to, tc_few_brought(keys), tc_few_brought(values), static_cast<int>(blockIdx.x),
      at / blocks, at % blocks * Tiles * 16, static_cast<int>(blockIdx.z));
}
