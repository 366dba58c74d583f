// One element of each row [rows, length], by its place among the sorted ones: radix selection. Of
// keys of bits (tc_order_key) the highest digit comes first: counts in shared memory say which
// digit the element has, and only elements with that digit count for the next one. A row is read
// once where the threads' registers hold its keys (`Keys` each), else once a digit. Equal elements
// are in order of their places; the last step finds the place of the one that is meant.
//
// `Threads` neighbouring threads share a row: one warp, or all of the block.
#pragma once

#include "tc_radix.h"

/// Which place: a number; the median, the lower one of two, NaN if there is one; the median of what
/// is no NaN.
static constexpr int tc_select_at = 0, tc_select_median = 1, tc_select_nanmedian = 2;

template <class T> struct tc_select_key {
  using type = decltype(tc_order_key(T()));
  static constexpr int bits = static_cast<int>(8 * sizeof(T));
  static constexpr type most = static_cast<type>(~type(0)) >> (8 * sizeof(type) - bits); // of NaN
};

/// The place that `kind` means, of `nans` NaN.
TC_FN long long tc_select_place(int kind, long long at, long long length, long long nans) {
  if (kind == tc_select_at)
    return at;
  const long long numbers = length - nans;
  if (kind == tc_select_median)
    return nans > 0 ? numbers : (length - 1) / 2;
  return numbers > 0 ? (numbers - 1) / 2 : 0;
}

// ---- alone

template <int Kind, class T>
TC_FN void tc_select_rows_alone(const T *elements, T *values, long long *places, long long length,
                                long long at, long long rows) {
  using key = typename tc_select_key<T>::type;
  constexpr int bits = tc_select_key<T>::bits;
  for (long long row = 0; row < rows; ++row) {
    const T *x = elements + row * length;
    long long nans = 0;
    if (Kind != tc_select_at)
      for (long long i = 0; i < length; ++i)
        nans += tc_order_key(x[i]) == tc_select_key<T>::most;
    long long left = tc_select_place(Kind, at, length, nans);
    key found = 0;
    for (int shift = bits - 8; shift >= 0; shift -= 8) {
      long long counts[256] = {};
      for (long long i = 0; i < length; ++i) {
        const key k = tc_order_key(x[i]);
        if (shift + 8 == bits || (k >> (shift + 8 < bits ? shift + 8 : 0)) == found)
          ++counts[static_cast<int>(k >> shift) & 255];
      }
      int digit = 0;
      for (; left >= counts[digit]; ++digit)
        left -= counts[digit];
      found = static_cast<key>(shift + 8 == bits ? 0 : found << 8) | static_cast<key>(digit);
    }
    for (long long i = 0; i < length; ++i)
      if (tc_order_key(x[i]) == found && left-- == 0) {
        values[row] = x[i];
        places[row] = i;
      }
  }
}

// ---- threads together

template <int Threads, int Bits> struct tc_select_memory {
  int counts[1 << Bits];
  int sums[Threads / 32]; // of warps
  int digit, before, nans;
};
template <int Threads> TC_FN void tc_select_barrier() {
  if (Threads == 32)
    __syncwarp();
  else
    TC_BARRIER();
}
TC_FN unsigned tc_select_ballot(bool x) { return __ballot_sync(0xffffffffu, x ? 1 : 0); }

/// The elements of a row that a thread has: of a warp's neighbours every 32nd.
template <int Threads, int Keys, class T> struct tc_select_row {
  using key = typename tc_select_key<T>::type;
  const T *elements;
  int length, steps, first;
  key held[Keys > 0 ? Keys : 1];

  TC_MEMBER tc_select_row(const T *row, int count, int lane)
      : elements(row), length(count), steps(Keys > 0 ? Keys : (count + Threads - 1) / Threads),
        first(lane / 32 * steps * 32 + lane % 32) {
    if constexpr (Keys > 0) {
      T x[Keys];
      TC_UNROLL
      for (int k = 0; k < Keys; ++k)
        x[k] = first + k * 32 < length ? elements[first + k * 32] : T();
      TC_UNROLL
      for (int k = 0; k < Keys; ++k)
        held[k] = tc_order_key(x[k]);
    }
  }
  /// use(place, key) of all elements, in the order of their places within the warp; `inside` is
  /// false behind the row's end.
  template <class Use> TC_MEMBER void each(const Use &use) const {
    if constexpr (Keys > 0) {
      TC_UNROLL
      for (int k = 0; k < Keys; ++k)
        use(first + k * 32, first + k * 32 < length, held[k]);
    } else {
      constexpr int ahead = 4; // loads under way
      for (int k = 0; k < steps; k += ahead) {
        T x[ahead];
        TC_UNROLL
        for (int u = 0; u < ahead; ++u) {
          const int i = first + (k + u) * 32;
          x[u] = k + u < steps && i < length ? elements[i] : T();
        }
        TC_UNROLL
        for (int u = 0; u < ahead; ++u) {
          const int i = first + (k + u) * 32;
          use(i, k + u < steps && i < length, tc_order_key(x[u]));
        }
      }
    }
  }
};

/// Sum of a warp's `x`, in all lanes.
TC_FN int tc_select_sum(int x) {
  TC_UNROLL
  for (int apart = 16; apart > 0; apart /= 2)
    x += tc_shfl_xor(x, apart);
  return x;
}

/// Finds the digit that the element at place `left` of those counted has; `left` becomes its place
/// among those of the digit.
template <int Threads, int Bits>
TC_FN int tc_select_digit(tc_select_memory<Threads, Bits> &memory, int lane, int &left) {
  constexpr int own = (1 << Bits) / Threads;
  int sum = 0;
  TC_UNROLL
  for (int d = 0; d < own; ++d)
    sum += memory.counts[lane * own + d];
  int up_to = sum;
  TC_UNROLL
  for (int apart = 1; apart < 32; apart *= 2) {
    const int other = tc_shfl_up(up_to, static_cast<unsigned>(apart));
    up_to += lane % 32 >= apart ? other : 0;
  }
  int before = up_to - sum;
  if constexpr (Threads > 32) {
    if (lane % 32 == 31)
      memory.sums[lane / 32] = up_to;
    TC_BARRIER();
    for (int warp = 0; warp < lane / 32; ++warp)
      before += memory.sums[warp];
  }
  if (left >= before && left < before + sum) {
    int digit = lane * own;
    for (; left >= before + memory.counts[digit]; ++digit)
      before += memory.counts[digit];
    memory.digit = digit;
    memory.before = before;
  }
  tc_select_barrier<Threads>();
  left -= memory.before;
  return memory.digit;
}

/// One row; all threads that share it take part.
template <int Threads, int Bits, int Keys, int Kind, class T>
TC_FN void tc_select_one(const T *elements, T *value, long long *place, int length, long long at,
                         int lane, tc_select_memory<Threads, Bits> &memory) {
  using key = typename tc_select_key<T>::type;
  constexpr int bits = tc_select_key<T>::bits;
  const tc_select_row<Threads, Keys, T> row(elements, length, lane);
  key found = 0;
  int left = 0;
  TC_UNROLL
  for (int above = bits; above > 0; above -= Bits) { // bits that are not known yet
    const int shift = above > Bits ? above - Bits : 0, width = above - shift;
    for (int d = lane; d < 1 << Bits; d += Threads)
      memory.counts[d] = 0;
    if (lane == 0)
      memory.nans = 0;
    tc_select_barrier<Threads>();
    int nans = 0;
    row.each([&](int, bool inside, key k) {
      if (inside && (above == bits || (k >> (above < bits ? above : 0)) == found))
        atomicAdd(&memory.counts[static_cast<int>(k >> shift) & ((1 << width) - 1)], 1);
      nans += inside && k == tc_select_key<T>::most;
    });
    if (above == bits && Kind != tc_select_at) {
      nans = tc_select_sum(nans);
      if (lane % 32 == 0 && nans > 0)
        atomicAdd(&memory.nans, nans);
    }
    tc_select_barrier<Threads>();
    if (above == bits)
      left = static_cast<int>(
          tc_select_place(Kind, at, length, Kind == tc_select_at ? 0 : memory.nans));
    const int digit = tc_select_digit<Threads, Bits>(memory, lane, left);
    found = static_cast<key>(above == bits ? key(0) : found << width) | static_cast<key>(digit);
    tc_select_barrier<Threads>(); // the digit has been read
  }
  // Which warp has it.
  int own = 0;
  row.each([&](int, bool inside, key k) { own += inside && k == found; });
  own = tc_select_sum(own);
  int before = 0;
  if constexpr (Threads > 32) {
    if (lane % 32 == 0)
      memory.sums[lane / 32] = own;
    TC_BARRIER();
    for (int warp = 0; warp < lane / 32; ++warp)
      before += memory.sums[warp];
  }
  if (left < before || left >= before + own)
    return;
  int seen = before;
  row.each([&](int i, bool inside, key k) {
    const bool is_it = inside && k == found;
    const unsigned those = tc_select_ballot(is_it);
    const unsigned earlier = those & ((1u << (lane % 32)) - 1u);
    if (is_it && seen + tc_radix_bits_of(earlier) == left) {
      *value = elements[i];
      *place = i;
    }
    seen += tc_radix_bits_of(those);
  });
}

/// A block a row (Threads above 32: all of the block), or a warp a row.
template <int Threads, int Bits, int Keys, int Kind, class T>
TC_FN void tc_select_rows(const T *elements, T *values, long long *places, long long length,
                          long long at, long long rows) {
  TC_DYN_SMEM(unsigned char, bytes);
  using memory = tc_select_memory<Threads, Bits>;
  memory *all = reinterpret_cast<memory *>(bytes);
  const int thread = static_cast<int>(threadIdx.x), part = thread / Threads;
  const long long row = static_cast<long long>(blockIdx.x) * (blockDim.x / Threads) + part;
  if (row < rows)
    tc_select_one<Threads, Bits, Keys, Kind>(elements + row * length, values + row, places + row,
                                             static_cast<int>(length), at, thread % Threads,
                                             all[part]);
}
