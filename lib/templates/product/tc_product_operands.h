// What a product multiplies: how elements lie in memory and are brought into shared memory.
//
// An operand is a type with
//   deep             runs of 16 bytes lie along the terms (else along the operand's rows)
//   copied           runs are in memory as they are (else they are computed)
//   whole_lines      copied, deep: runs of 128 bytes from such a multiple on lie together, up to
//                    `terms`
//   place at(row)    what all runs of a row share
//   run(place, term) copied: where the run starts, null for zeros; else run(place, term, values)
// "Rows" of the right operand are the product's columns.
#pragma once

#include "tc_pipeline.h"
#include "tc_product_geometry.h"

/// How a product of T is computed: what memory holds, elements of a word, terms of a step, threads
/// of a block. `apart`: matrix units add up fewer bits than f32 has, a step's sums are added to the
/// others by threads.
template <class T> struct tc_product_kind {
  using element = T;
  static constexpr bool by_threads = false, rounds = false, apart = false;
  static constexpr int word = tc_product_word_of(2), terms = tc_product_terms_of(2),
                       threads = tc_product_threads;
};
template <> struct tc_product_kind<float> {
  using element = float;
  static constexpr bool by_threads = true, rounds = false, apart = false;
  static constexpr int word = tc_product_word_of(4), terms = tc_product_terms_of(4),
                       threads = tc_product_float_threads;
};
template <> struct tc_product_kind<tc_tf32> {
  using element = float;
  static constexpr bool by_threads = false, rounds = true, apart = false;
  static constexpr int word = tc_product_word_of(4), terms = tc_product_terms_of(4),
                       threads = tc_product_threads;
};
template <> struct tc_product_kind<tc_f8e4m3fn> {
  using element = tc_f8e4m3fn;
  static constexpr bool by_threads = false, rounds = false, apart = true;
  static constexpr int word = tc_product_word_of(1), terms = tc_product_terms_of(1),
                       threads = tc_product_threads;
};

/// `stages`: steps that shared memory holds. `lag`: 1 where a step's product may still run when the
/// next one starts. `splits`: blocks, a cluster, that share the terms of a tile.
/// `turns`: groups of warps take tiles in turns. `pair`: two blocks, a cluster, multiply rows below
/// each other with the same columns, each of which one of them brings for both. `products`: of a
/// batch, that a tile has beside each other, `each` columns of each. A line of the left operand
/// holds the terms of all of them, and each is multiplied by columns of its own alone.
template <int Rows, int Columns, int Stages, int Lag, int Splits = 1, bool Turns = false,
          bool Pair = false, int Products = 1, int Each = Columns>
struct tc_product_tile {
  static_assert(Splits == 1 || !(Turns || Pair), "blocks that share terms have one tile");
  static_assert(Products == 1 || (!Turns && !Pair && Products * Each <= Columns),
                "products beside each other are a tile");
  static constexpr int products = Products, each = Each;
  static constexpr int rows = Rows, columns = Columns, stages = Stages, lag = Lag, splits = Splits;
  static constexpr bool turns = Turns, pair = Pair;
  static constexpr int unit_blocks = Splits * (Pair ? 2 : 1), unit_rows = Rows * (Pair ? 2 : 1);
  static constexpr int row_tiles = Rows / (2 * tc_product_group_rows); // of a group of warps
  static constexpr int left_bytes = Rows * tc_product_line,
                       stage_bytes = tc_product_stage_bytes(Rows, Columns);
  // Results in shared memory, floats: of each run of 8 columns the first four, then (`upper`
  // further) the last four, so that neither writing nor reading meets a bank twice.
  static constexpr int upper = Columns / 2 + 16, pitch = tc_product_pitch(Columns);
};

/// Element (row, term) is at[row * stride + term].
template <class T> struct tc_deep_operand {
  static constexpr bool deep = true, copied = true, whole_lines = true;
  const T *from;
  long long stride;
  int rows, terms;
  struct place {
    const T *from;
  };
  TC_MEMBER void move(long long elements) { from += elements; }
  TC_MEMBER place at(int row) const { return {row < rows ? from + row * stride : nullptr}; }
  TC_MEMBER const T *run(const place &p, int term) const {
    return p.from != nullptr && term < terms ? p.from + term : nullptr;
  }
};
/// Element (row, term) is at[term * stride + row].
template <class T> struct tc_flat_operand {
  static constexpr bool deep = false, copied = true;
  const T *from;
  long long stride;
  int rows, terms;
  struct place {
    const T *from;
  };
  TC_MEMBER void move(long long elements) { from += elements; }
  TC_MEMBER place at(int row) const { return {row < rows ? from + row : nullptr}; }
  TC_MEMBER const T *run(const place &p, int term) const {
    return p.from != nullptr && term < terms ? p.from + term * stride : nullptr;
  }
};

/// One matrix for each product of a batch: element 0 of the next one's is `batch_stride` further.
template <class Operand> struct tc_batched_operand : Operand { long long batch_stride; };
template <class Operand> constexpr bool tc_is_batched = false;
template <class Operand> constexpr bool tc_is_batched<tc_batched_operand<Operand>> = true;

/// An operand in memory that bulk copies bring: deep ones in boxes of a line's terms and a tile's
/// rows, flat ones of 64 rows and 64 terms.
template <class Operand> struct tc_mapped_operand : Operand { const tc_tensor_map *map; };
/// A deep operand whose rows are the positions of windows and whose terms are their taps, each of
/// `channels` terms, whole lines of shared memory: bulk copies bring a tap of a tile's positions.
/// Dimensions from the innermost one on. `Operand` is what reads it without. `Parts`: of a line,
/// each of one tap's channels; a tile's rows of one, then of the next one.
template <class Operand, int Rank, int Parts = 1> struct tc_windows_operand : Operand {
  static constexpr int rank = Rank, parts = Parts;
  const tc_tensor_map *map;
  int channels;
  int positions[Rank], kernel[Rank], stride[Rank], padding[Rank], dilation[Rank];
};
template <class Operand> constexpr bool tc_is_windows = false;
template <class Operand, int Rank, int Parts>
constexpr bool tc_is_windows<tc_windows_operand<Operand, Rank, Parts>> = true;
template <class Operand> constexpr int tc_line_parts = 1;
template <class Operand, int Rank, int Parts>
constexpr int tc_line_parts<tc_windows_operand<Operand, Rank, Parts>> = Parts;

template <class Operand> constexpr bool tc_is_mapped = tc_is_windows<Operand>;
template <class Operand> constexpr bool tc_is_mapped<tc_mapped_operand<Operand>> = true;
template <class Operand>
constexpr bool tc_is_batched<tc_mapped_operand<Operand>> = tc_is_batched<Operand>;
template <class Operand, int Rank, int Parts>
constexpr bool tc_is_batched<tc_windows_operand<Operand, Rank, Parts>> = tc_is_batched<Operand>;

/// What product `batch` multiplies, as threads read it.
template <class Operand> TC_FN Operand tc_operand_of(const Operand &operand, int batch) {
  Operand result = operand;
  if constexpr (tc_is_batched<Operand>)
    result.move(batch * operand.batch_stride);
  return result;
}

template <class T, class Operand, int N>
TC_FN void tc_operand_run(const Operand &operand, const typename Operand::place &place, int term,
                          float (&values)[N]) {
  if constexpr (Operand::copied) {
    const T *run = operand.run(place, term);
    for (int i = 0; i < N; ++i)
      values[i] = run != nullptr ? tc_get(run[i]) : 0.0f;
  } else {
    operand.run(place, term, values);
    for (int i = 0; i < N; ++i)
      values[i] = tc_get(tc_storage<T>::store(values[i]));
  }
}

/// For the texts around: results as a run of values, a run of values as an operand's, zeros.
template <int N> TC_FN tc_vec<float, N> tc_run_of(const float (&results)[N]) {
  tc_vec<float, N> run;
  TC_UNROLL
  for (int i = 0; i < N; ++i)
    run.at[i] = results[i];
  return run;
}
template <int N> TC_FN void tc_give_run(const float (&from)[N], float (&values)[N]) {
  TC_UNROLL
  for (int i = 0; i < N; ++i)
    values[i] = from[i];
}
template <int N> TC_FN void tc_clear_run(float (&values)[N]) {
  TC_UNROLL
  for (int i = 0; i < N; ++i)
    values[i] = 0.0f;
}

#ifdef TC_DEVICE

TC_FN void tc_store_word(tc_f16, unsigned to, const float (&values)[8]) {
  tc_shared_store(to, tc_pack(tc_f16{}, values[0], values[1]),
                  tc_pack(tc_f16{}, values[2], values[3]), tc_pack(tc_f16{}, values[4], values[5]),
                  tc_pack(tc_f16{}, values[6], values[7]));
}
TC_FN void tc_store_word(tc_bf16, unsigned to, const float (&values)[8]) {
  tc_shared_store(
      to, tc_pack(tc_bf16{}, values[0], values[1]), tc_pack(tc_bf16{}, values[2], values[3]),
      tc_pack(tc_bf16{}, values[4], values[5]), tc_pack(tc_bf16{}, values[6], values[7]));
}
TC_FN void tc_store_word(float, unsigned to, const float (&values)[4]) {
  tc_shared_store(to, tc_float_bits(values[0]), tc_float_bits(values[1]), tc_float_bits(values[2]),
                  tc_float_bits(values[3]));
}
/// Brings one step of an operand, `Extent` rows of it, into shared memory. Deep: line r holds row
/// r's terms. Flat: a line a term, each of 128 bytes of rows; then the next such rows. By the first
/// `Threads` of a block.
template <class T, int Extent, class Operand, int Threads = tc_product_threads>
struct tc_operand_mover {
  using kind = tc_product_kind<T>;
  static constexpr int across = Operand::deep ? 8 : Extent / kind::word; // words beside each other
  static constexpr int down = Threads / across;                          // lines a pass
  static constexpr int lines = Operand::deep ? Extent : kind::terms;
  static constexpr int passes = (lines + down - 1) / down;
  typename Operand::place places[Operand::deep ? passes : 1];

  TC_MEMBER void start(const Operand &operand, int first) {
    const int thread = static_cast<int>(threadIdx.x);
    if constexpr (Operand::deep) {
      TC_UNROLL
      for (int i = 0; i < passes; ++i)
        places[i] = operand.at(first + thread / across + i * down);
    } else {
      places[0] = operand.at(first + thread % across * kind::word);
    }
  }
  TC_MEMBER void move(const Operand &operand, unsigned to, int first_term) const {
    const int thread = static_cast<int>(threadIdx.x), word = thread % across;
    TC_UNROLL
    for (int i = 0; i < passes; ++i) {
      const int line = thread / across + i * down;
      if (lines % down != 0 && line >= lines)
        break;
      const unsigned target = to + static_cast<unsigned>(word / 8 * kind::terms * tc_product_line) +
                              tc_swizzled(line, word);
      const int term = Operand::deep ? first_term + word * kind::word : first_term + line;
      const typename Operand::place &place = places[Operand::deep ? i : 0];
      if constexpr (Operand::copied) {
        const typename kind::element *source = operand.run(place, term);
        tc_async_copy(target, source, source != nullptr);
      } else {
        float values[kind::word];
        operand.run(place, term, values);
        tc_store_word(T{}, target, values);
      }
    }
  }
};

/// Deep operands of floats: a line's words are brought by `Across` threads, 16 bytes times that at
/// once, so that a thread keeps the places of few rows. Eight threads meet no bank twice: their
/// lines are `Across` apart. Where a line's terms lie together (whole_lines), the place of the
/// first one says where all are. `Rounds`: to TF32, on the way through registers.
template <int Extent, class Operand, int Across, bool Rounds, int Threads = tc_product_threads>
struct tc_line_mover {
  static constexpr int across = Across, words = 8 / Across; // of a line, a thread's
  static constexpr int down = Threads / across, passes = (Extent + down - 1) / down;
  static_assert(Extent % down == 0 && down % 8 == 0, "a thread's lines are equal modulo 8");
  typename Operand::place places[passes];

  /// The first of a thread's lines, and its first word of each; the next ones are `across` further.
  TC_MEMBER static int line() {
    const int n = static_cast<int>(threadIdx.x) / across;
    return n / 8 * 8 + n % words * across + n % 8 / words;
  }
  TC_MEMBER static int word() { return static_cast<int>(threadIdx.x) % across; }

  TC_MEMBER void start(const Operand &operand, int first) {
    const int row = first + line();
    TC_UNROLL
    for (int i = 0; i < passes; ++i)
      places[i] = operand.at(row + i * down);
  }
  TC_MEMBER void move(const Operand &operand, unsigned to, int first_term) const {
    const unsigned word0 = to + tc_swizzled(line(), word());
    const int term0 = first_term + word() * 4;
    TC_UNROLL
    for (int i = 0; i < passes; ++i) {
      const auto target_of = [&](int j) {
        return tc_swizzled_word(word0, j * across) +
               static_cast<unsigned>(i * down * tc_product_line);
      };
      const float *const line = Operand::whole_lines ? operand.run(places[i], term0) : nullptr;
      const auto source_of = [&](int j) -> source {
        const int term = term0 + j * across * 4;
        if constexpr (Operand::whole_lines)
          return {line + j * across * 4, line != nullptr && term < operand.terms};
        const float *const from = operand.run(places[i], term);
        return {from, from != nullptr};
      };
      if constexpr (Rounds) { // all are on their way before the first is waited for
        float4 values[words];
        TC_UNROLL
        for (int j = 0; j < words; ++j) {
          const source from = source_of(j);
          values[j] = from.present ? *reinterpret_cast<const float4 *>(from.at)
                                   : make_float4(0.0f, 0.0f, 0.0f, 0.0f);
        }
        TC_UNROLL
        for (int j = 0; j < words; ++j)
          tc_shared_store(target_of(j), tc_round_tf32(values[j].x), tc_round_tf32(values[j].y),
                          tc_round_tf32(values[j].z), tc_round_tf32(values[j].w));
      } else {
        TC_UNROLL
        for (int j = 0; j < words; ++j) {
          const source from = source_of(j);
          tc_async_copy(target_of(j), from.at, from.present);
        }
      }
    }
  }

private:
  struct source {
    const float *at;
    bool present; // else zeros
  };
};

/// What brings an operand of T. Deep ones of floats keep the places of few rows: sums, and what
/// matrix units still read, leave few registers.
template <class T, int Extent, class Operand, bool IsRight> struct tc_mover {
  using type = tc_operand_mover<T, Extent, Operand>;
};
template <int Extent, class Operand, bool Lines = Operand::deep &&Operand::copied>
struct tc_float_mover {
  using type = tc_operand_mover<float, Extent, Operand, tc_product_float_threads>;
};
template <int Extent, class Operand> struct tc_float_mover<Extent, Operand, true> {
  using type =
      tc_line_mover<Extent, Operand, (Extent < 64 ? 4 : 2), false, tc_product_float_threads>;
};
template <int Extent, class Operand, bool IsRight>
struct tc_mover<float, Extent, Operand, IsRight> : tc_float_mover<Extent, Operand> {};
template <int Extent, class Operand, bool IsRight>
struct tc_mover<tc_tf32, Extent, Operand, IsRight> {
  static_assert(Operand::deep && Operand::copied, "TF32 lies along the terms");
  using type = tc_line_mover<Extent, Operand, 4, IsRight>;
};

#endif
