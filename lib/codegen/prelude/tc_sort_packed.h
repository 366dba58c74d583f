// Sorting rows whose elements and places fit 32 bits together: elements of up to 16 bits with their
// places, or 32-bit integers alone. No two packed numbers of a row are equal (or nobody can tell
// them apart), so that the order among them is that of a stable sort whatever the steps, and a step
// is the smaller or the larger of two numbers: a bitonic network, each of whose merges first
// compares with the mirror image and then with neighbours ever nearer.
// Where memory is read and written, and by scans of what was sorted, runs are in the order of
// tc_row_scan; while a row is sorted, a thread has `Count` neighbouring places.
#pragma once

#include "tc_keys.h"
#include "tc_sort.h"

TC_FN unsigned tc_is_negative_zero(tc_f16 x) { return x.bits == 0x8000u; }
TC_FN unsigned tc_is_negative_zero(tc_bf16 x) { return x.bits == 0x8000u; }
template <class T> TC_FN unsigned tc_is_negative_zero(T) { return 0u; }

/// The key above, then the place in the row (below 32768), then what the key does not tell.
template <bool Descending, class T> TC_FN unsigned tc_pack_element(T x, unsigned place) {
  const unsigned key = Descending ? ~tc_order_key(x) : tc_order_key(x);
  if constexpr (sizeof(T) == 4)
    return key;
  else
    return key << 16 | place << 1 | tc_is_negative_zero(x);
}
template <bool Descending, class T> TC_FN T tc_unpack_element(unsigned packed) {
  const unsigned upper = Descending ? ~packed : packed;
  if constexpr (sizeof(T) == 4)
    return tc_of_order_key(upper, T());
  else
    return tc_of_order_key(upper >> 16, T());
}
/// The element as a value, -0.0 told from 0.0.
template <bool Descending, class T>
TC_FN typename tc_storage<T>::value tc_unpack_value(unsigned packed) {
  const auto x = tc_storage<T>::load(tc_unpack_element<Descending, T>(packed));
  if constexpr (sizeof(T) == 2 && sizeof(x) == 4)
    return packed & 1u && x == 0 ? -0.0f : x;
  else
    return x;
}

TC_FN unsigned tc_smaller(unsigned a, unsigned b) { return a < b ? a : b; }
TC_FN unsigned tc_larger(unsigned a, unsigned b) { return a < b ? b : a; }
TC_FN void tc_put_in_order(unsigned &a, unsigned &b) {
  const unsigned least = tc_smaller(a, b);
  b = tc_larger(a, b);
  a = least;
}

/// Any number of elements that one thread has.
template <int Count> TC_FN void tc_sort_packed_alone(unsigned (&x)[Count]) {
  TC_UNROLL
  for (int round = 0; round < Count; ++round) {
    TC_UNROLL
    for (int i = 0; i + 1 < Count; ++i)
      if (i % 2 == round % 2)
        tc_put_in_order(x[i], x[i + 1]);
  }
}
/// Merges within threads whose first and second halves fit each other (`apart`: half of them).
template <int Count> TC_FN void tc_merge_packed_own(unsigned (&x)[Count]) {
  TC_UNROLL
  for (int apart = Count / 2; apart > 0; apart /= 2) {
    TC_UNROLL
    for (int i = 0; i < Count; ++i)
      if ((i & apart) == 0)
        tc_put_in_order(x[i], x[i + apart]);
  }
}
template <int Count> TC_FN void tc_sort_packed_own(unsigned (&x)[Count]) {
  static_assert((Count & (Count - 1)) == 0, "a power of two");
  TC_UNROLL
  for (int size = 2; size <= Count; size *= 2) {
    TC_UNROLL
    for (int i = 0; i < Count; ++i)
      if ((i & (size / 2)) == 0)
        tc_put_in_order(x[i], x[i ^ (size - 1)]);
    TC_UNROLL
    for (int apart = size / 4; apart > 0; apart /= 2) {
      TC_UNROLL
      for (int i = 0; i < Count; ++i)
        if ((i & apart) == 0)
          tc_put_in_order(x[i], x[i + apart]);
    }
  }
}

/// Compares with thread `lane ^ mask` of the row; the elements of that are mirrored or not. Threads
/// with `keeps_larger` keep the larger of each two. `words`: Threads * Count of them, the row's
/// own.
template <bool Mirrored, int Threads, int Count>
TC_FN void tc_compare_packed(unsigned (&x)[Count], int mask, bool keeps_larger, unsigned *words) {
  const int lane = static_cast<int>(threadIdx.x) % Threads;
  unsigned other[Count];
  if (mask < 32) {
    TC_UNROLL
    for (int i = 0; i < Count; ++i)
      other[i] = tc_shfl_xor(x[Mirrored ? Count - 1 - i : i], mask);
  } else {
    tc_meet(Threads); // what was exchanged before has been read
    TC_UNROLL
    for (int i = 0; i < Count; ++i)
      words[i * Threads + lane] = x[i];
    tc_meet(Threads);
    TC_UNROLL
    for (int i = 0; i < Count; ++i)
      other[i] = words[(Mirrored ? Count - 1 - i : i) * Threads + (lane ^ mask)];
  }
  TC_UNROLL
  for (int i = 0; i < Count; ++i)
    x[i] = keeps_larger ? tc_larger(x[i], other[i]) : tc_smaller(x[i], other[i]);
}

/// The place in the row of a thread's element k.
template <int Threads, int Vector, int Count> TC_FN int tc_packed_place(int lane, int k) {
  constexpr int width = Threads < 32 ? Threads : 32, steps = Count / Vector;
  return ((lane / width * steps + k / Vector) * width + lane % width) * Vector + k % Vector;
}

/// Sorts the words of a row: a thread has those of tc_packed_place, before and after. `words`:
/// those of tc_sort_slot, the row's own.
template <int Threads, int Vector, int Count>
TC_FN void tc_sort_words(unsigned (&packed)[Count], unsigned *words) {
  const int lane = static_cast<int>(threadIdx.x) % Threads;
  tc_sort_packed_own(packed);
  TC_NO_UNROLL
  for (int width = 1; width < Threads; width *= 2) {
    tc_compare_packed<true, Threads>(packed, 2 * width - 1, (lane & width) != 0, words);
    TC_NO_UNROLL
    for (int mask = width / 2; mask > 0; mask /= 2)
      tc_compare_packed<false, Threads>(packed, mask, (lane & mask) != 0, words);
    tc_merge_packed_own(packed);
  }
  tc_meet(Threads); // `words` may hold what was exchanged, or sorted, before
  TC_UNROLL
  for (int k = 0; k < Count; ++k)
    words[tc_sort_own_slot<Count>(lane, k)] = packed[k];
  tc_meet(Threads);
  TC_UNROLL
  for (int k = 0; k < Count; ++k)
    packed[k] = words[tc_sort_slot(tc_packed_place<Threads, Vector, Count>(lane, k))];
}

/// Sorts the rows of a block: Rows of them, Threads neighbouring threads a row (a power of two; all
/// threads of the block take part), runs of Vector elements. With Positions, `at` gets where each
/// element was in its row. `memory`: a pitch of words (tc_sort_pitch) for each row of more than one
/// thread.
template <bool Descending, bool Positions, int Threads, int Rows, int Vector, class Stored,
          int Count, class T>
TC_FN void tc_row_sort_packed(T (&x)[Count], unsigned short (&at)[Count], unsigned char *memory) {
  const int lane = static_cast<int>(threadIdx.x) % Threads;
  unsigned packed[Count];
  TC_UNROLL
  for (int k = 0; k < Count; ++k) {
    const int place = tc_packed_place<Threads, Vector, Count>(lane, k);
    packed[k] = tc_pack_element<Descending>(static_cast<Stored>(tc_storage<Stored>::store(x[k])),
                                            static_cast<unsigned>(place));
  }
  if constexpr (Threads == 1) {
    tc_sort_packed_alone(packed);
  } else {
    const int row = static_cast<int>(threadIdx.x) / Threads;
    tc_sort_words<Threads, Vector>(packed, reinterpret_cast<unsigned *>(memory) +
                                               row * tc_sort_pitch<Threads, Count>());
  }
  TC_UNROLL
  for (int k = 0; k < Count; ++k) {
    x[k] = static_cast<T>(tc_unpack_value<Descending, Stored>(packed[k]));
    if constexpr (Positions)
      at[k] = static_cast<unsigned short>(packed[k] >> 1 & 0x7fffu);
  }
}
