// Sorting rows that no block holds: stable passes over the digits of a key, the lowest first. Only
// kernels of such sorts include it.
//
// A row is cut into parts, a part into tiles of 4096 elements. A pass is three kernels, and no
// block waits for another one:
//   1. tc_radix_count: how often each digit stands in each part, table [rows, parts + 1, digits];
//   2. tc_radix_scan: of each digit, how often it stands in the parts before; behind the last part,
//      in the whole row;
//   3. tc_radix_move: where the elements of a part go follows from these and from the order in the
//      part. A tile is put in order of its digits in shared memory first, so that neighbours are
//      written to neighbours.
// What moves are the elements themselves: keys are made of them whenever a digit is asked for, so
// that -0.0 and the bits of a NaN arrive as they were. The functions that end in _alone do the same
// with one thread a block.
#pragma once

#include "tc_keys.h"
#include "tc_radix_geometry.h"
#include "tc_sort_packed.h"

/// The digit at bit `shift`.
template <bool Descending, class T> TC_FN int tc_radix_digit(T x, int shift) {
  const auto key = tc_order_key(x);
  return static_cast<int>((Descending ? ~key : key) >> shift) & (tc_radix_digits - 1);
}

/// How rows are cut: parts * steps tiles hold a row, the last ones perhaps nothing.
struct tc_radix_rows {
  long long length, parts, steps; // elements of a row, parts of a row, tiles of a part
  int shift;                      // of the pass's digit
};
/// The block's row and part, and the first element of the part.
struct tc_radix_place {
  long long row, part, first;
};
TC_FN tc_radix_place tc_radix_part(const tc_radix_rows &rows) {
  const unsigned parts = static_cast<unsigned>(rows.parts);
  const unsigned row = blockIdx.x / parts, part = blockIdx.x % parts;
  return {row, part, part * rows.steps * tc_radix_tile};
}
/// Elements of the part.
TC_FN long long tc_radix_held(const tc_radix_rows &rows, const tc_radix_place &place) {
  const long long most = rows.steps * tc_radix_tile, left = rows.length - place.first;
  return left < 0 ? 0 : left < most ? left : most;
}
/// The row of the table that belongs to a part; number `parts` holds the totals.
template <class Count>
TC_FN Count *tc_radix_counts(Count *table, const tc_radix_rows &rows, long long row,
                             long long part) {
  return table + (row * (rows.parts + 1) + part) * tc_radix_digits;
}

// ---- one thread a block

template <bool Descending, class T, class Count>
TC_FN void tc_radix_count_alone(const T *in, Count *table, const tc_radix_rows &rows) {
  const tc_radix_place place = tc_radix_part(rows);
  const long long held = tc_radix_held(rows, place);
  const T *x = in + place.row * rows.length + place.first;
  Count counts[tc_radix_digits] = {};
  for (long long i = 0; i < held; ++i)
    ++counts[tc_radix_digit<Descending>(x[i], rows.shift)];
  Count *to = tc_radix_counts(table, rows, place.row, place.part);
  for (int digit = 0; digit < tc_radix_digits; ++digit)
    to[digit] = counts[digit];
}

/// A block a row.
template <class Count> TC_FN void tc_radix_scan_alone(Count *table, const tc_radix_rows &rows) {
  Count *counts = tc_radix_counts(table, rows, static_cast<long long>(blockIdx.x), 0);
  Count before[tc_radix_digits] = {};
  for (long long part = 0; part < rows.parts; ++part, counts += tc_radix_digits)
    for (int digit = 0; digit < tc_radix_digits; ++digit) {
      const Count count = counts[digit];
      counts[digit] = before[digit];
      before[digit] += count;
    }
  for (int digit = 0; digit < tc_radix_digits; ++digit)
    counts[digit] = before[digit];
}

/// Where elements were: nobody asks, where they are, or read from memory.
struct tc_radix_none {};
template <class T> struct tc_radix_asked { static constexpr bool value = true; };
template <> struct tc_radix_asked<tc_radix_none> { static constexpr bool value = false; };
TC_FN tc_radix_none tc_radix_at(tc_radix_none, long long, long long) { return {}; }
struct tc_radix_here {};
TC_FN long long tc_radix_at(tc_radix_here, long long, long long in_row) { return in_row; }
template <class P> TC_FN P tc_radix_at(const P *places, long long row_start, long long in_row) {
  return places[row_start + in_row];
}
/// x[k] = load(k * Apart) for what lies below `left`, else T{}. A whole tile has a branch of its
/// own, in which all loads are under way before the first is used: guarded one by one, ptxas puts
/// each in front of its use.
template <int Apart, class T, class Load>
TC_FN void tc_radix_load(T (&x)[tc_radix_keys], int own, int left, const Load &load) {
  if (left == tc_radix_tile) {
    TC_UNROLL
    for (int k = 0; k < tc_radix_keys; ++k)
      x[k] = load(own + k * Apart);
  } else {
    TC_UNROLL
    for (int k = 0; k < tc_radix_keys; ++k)
      x[k] = own + k * Apart < left ? load(own + k * Apart) : T{};
  }
}

/// Stores an element or a position; where nobody asks, nothing.
template <class T, class X> TC_FN void tc_radix_put(T *to, long long at, X x) {
  to[at] = static_cast<T>(x);
}
template <class X> TC_FN void tc_radix_put(tc_radix_none, long long, X) {}

/// `were`: one of the above; `out`, `places`: pointers, or tc_radix_none.
template <bool Descending, class T, class Count, class Were, class Out, class Places>
TC_FN void tc_radix_move_alone(const T *in, Were were, const Count *table, Out out, Places places,
                               const tc_radix_rows &rows) {
  const tc_radix_place place = tc_radix_part(rows);
  const long long held = tc_radix_held(rows, place), start = place.row * rows.length;
  const Count *own = tc_radix_counts(table, rows, place.row, place.part);
  const Count *totals = tc_radix_counts(table, rows, place.row, rows.parts);
  Count next[tc_radix_digits], before = 0;
  for (int digit = 0; digit < tc_radix_digits; ++digit) {
    next[digit] = before + own[digit];
    before += totals[digit];
  }
  for (long long i = place.first; i < place.first + held; ++i) {
    const T x = in[start + i];
    const long long to = start + next[tc_radix_digit<Descending>(x, rows.shift)]++;
    tc_radix_put(out, to, x);
    tc_radix_put(places, to, tc_radix_at(were, start, i));
  }
}

// ---- blocks of threads

struct tc_radix_count_memory {
  unsigned counts[tc_radix_digits];
};
/// A block a part.
template <bool Descending, class T, class Count>
TC_FN void tc_radix_count(const T *in, Count *table, const tc_radix_rows &rows,
                          tc_radix_count_memory &memory) {
  const int thread = static_cast<int>(threadIdx.x);
  const tc_radix_place place = tc_radix_part(rows);
  const long long held = tc_radix_held(rows, place);
  const T *part = in + place.row * rows.length + place.first;
  memory.counts[thread] = 0;
  TC_BARRIER();
  for (long long first = thread; first < held; first += tc_radix_tile) {
    T x[tc_radix_keys];
    TC_UNROLL
    for (int k = 0; k < tc_radix_keys; ++k) {
      const long long i = first + k * tc_radix_threads;
      x[k] = i < held ? part[i] : T{};
    }
    TC_UNROLL
    for (int k = 0; k < tc_radix_keys; ++k)
      if (first + k * tc_radix_threads < held)
        atomicAdd(&memory.counts[tc_radix_digit<Descending>(x[k], rows.shift)], 1u);
  }
  TC_BARRIER();
  tc_radix_counts(table, rows, place.row, place.part)[thread] =
      static_cast<Count>(memory.counts[thread]);
}

/// A block a row, a thread a digit.
template <class Count> TC_FN void tc_radix_scan_few(Count *table, const tc_radix_rows &rows) {
  Count *column = tc_radix_counts(table, rows, static_cast<long long>(blockIdx.x), 0) + threadIdx.x;
  Count before = 0;
  for (int first = 0; first < rows.parts; first += tc_radix_parts_at_once) {
    Count counts[tc_radix_parts_at_once];
    TC_UNROLL
    for (int k = 0; k < tc_radix_parts_at_once; ++k)
      counts[k] = first + k < rows.parts ? column[(first + k) * tc_radix_digits] : Count(0);
    TC_UNROLL
    for (int k = 0; k < tc_radix_parts_at_once; ++k) {
      if (first + k < rows.parts)
        column[(first + k) * tc_radix_digits] = before;
      before += counts[k];
    }
  }
  column[rows.parts * tc_radix_digits] = before;
}

template <class Count> struct tc_radix_scan_memory {
  Count sums[tc_radix_scan_warps][tc_radix_scan_digits];
};
/// A block 8 digits of a row. Four neighbouring runs of 16 parts are a warp's, 64 the block's.
template <class Count>
TC_FN void tc_radix_scan(Count *table, const tc_radix_rows &rows,
                         tc_radix_scan_memory<Count> &memory) {
  constexpr int groups = tc_radix_digits / tc_radix_scan_digits;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const int block = static_cast<int>(blockIdx.x), own = thread % tc_radix_scan_digits;
  Count *column =
      tc_radix_counts(table, rows, block / groups, 0) + block % groups * tc_radix_scan_digits + own;
  Count before_round = 0;
  for (long long round = 0; round < rows.parts; round += tc_radix_scan_round) {
    const long long first = round + thread / tc_radix_scan_digits * tc_radix_scan_parts;
    Count counts[tc_radix_scan_parts], sum = 0;
    TC_UNROLL
    for (int k = 0; k < tc_radix_scan_parts; ++k)
      counts[k] = first + k < rows.parts ? column[(first + k) * tc_radix_digits] : Count(0);
    TC_UNROLL
    for (int k = 0; k < tc_radix_scan_parts; ++k)
      sum += counts[k];
    Count up_to = sum; // of the warp, this thread's parts included
    TC_UNROLL
    for (int apart = tc_radix_scan_digits; apart < 32; apart *= 2) {
      const Count other = tc_shfl_up(up_to, static_cast<unsigned>(apart));
      up_to += lane >= apart ? other : Count(0);
    }
    if (lane >= 32 - tc_radix_scan_digits)
      memory.sums[warp][own] = up_to;
    TC_BARRIER();
    Count before = before_round + up_to - sum;
    TC_UNROLL
    for (int w = 0; w < tc_radix_scan_warps; ++w) {
      const Count of_warp = memory.sums[w][own];
      before += w < warp ? of_warp : Count(0);
      before_round += of_warp;
    }
    TC_UNROLL
    for (int k = 0; k < tc_radix_scan_parts; ++k) {
      if (first + k < rows.parts)
        column[(first + k) * tc_radix_digits] = before;
      before += counts[k];
    }
    TC_BARRIER(); // the sums have been read
  }
  if (thread < tc_radix_scan_digits)
    column[rows.parts * tc_radix_digits] = before_round;
}

/// The lanes that have the same digit. All lanes of the warp take part.
#ifdef TC_DEVICE
TC_FN unsigned tc_radix_peers(int digit) {
  unsigned peers = 0xffffffffu;
  TC_UNROLL
  for (int bit = 0; bit < tc_radix_bits; ++bit) {
    const bool is_set = (digit >> bit & 1) != 0;
    const unsigned those = __ballot_sync(0xffffffffu, is_set);
    peers &= is_set ? those : ~those;
  }
  return peers;
}
TC_FN int tc_radix_bits_of(unsigned x) { return __popc(x); }
#else
TC_FN unsigned tc_radix_peers(int digit) { return tc_match(digit); }
TC_FN int tc_radix_bits_of(unsigned x) { return __builtin_popcount(x); }
#endif

template <class Count, class Item> union tc_radix_exchange {
  Item values[tc_radix_tile];
  Count places[tc_radix_tile];
};
template <class T, class Count> struct tc_radix_move_memory {
  unsigned counts[tc_radix_warps][tc_radix_digits]; // of a warp; later, of the warps before it
  unsigned first[tc_radix_digits];                  // place of a digit's first element in the tile
  Count next[tc_radix_digits];                      // where a digit's next element goes in the row
  Count ahead[tc_radix_digits];                     // from a place in the tile to one in the row
  Count sums[tc_radix_warps];
  tc_radix_exchange<Count, T> tile;
};

/// The sum of `count` over the threads before this one. A barrier lies between reading `sums` and
/// calling it again.
template <class Count> TC_FN Count tc_radix_before(Count count, Count (&sums)[tc_radix_warps]) {
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  Count up_to = count;
  TC_UNROLL
  for (int apart = 1; apart < 32; apart *= 2) {
    const Count other = tc_shfl_up(up_to, static_cast<unsigned>(apart));
    up_to += lane >= apart ? other : Count(0);
  }
  if (lane == 31)
    sums[warp] = up_to;
  TC_BARRIER();
  Count before = up_to - count;
  TC_UNROLL
  for (int w = 0; w < tc_radix_warps; ++w)
    before += w < warp ? sums[w] : Count(0);
  return before;
}

/// A block a part. A warp takes 512 neighbouring elements of a tile, a lane every 32nd of them, so
/// that (warp, k, lane) is the order of the row. What lies behind the row's end takes the largest
/// digit and so the last places of the tile, which are not written.
template <bool Descending, class T, class Count, class Were, class Out, class Places>
TC_FN void tc_radix_move(const T *in, Were were, const Count *table, Out out, Places places,
                         const tc_radix_rows &rows, tc_radix_move_memory<T, Count> &memory) {
  constexpr bool moves_places = tc_radix_asked<Were>::value;
  const int thread = static_cast<int>(threadIdx.x), warp = thread / 32, lane = thread % 32;
  const tc_radix_place place = tc_radix_part(rows);
  const long long start = place.row * rows.length; // of the row
  const Count held = static_cast<Count>(tc_radix_held(rows, place));
  // Thread t is digit t's. What it alone reads again is kept here, not in a register: those decide
  // how many blocks a multiprocessor holds.
  memory.next[thread] =
      tc_radix_before(tc_radix_counts(table, rows, place.row, rows.parts)[thread], memory.sums) +
      tc_radix_counts(table, rows, place.row, place.part)[thread];
  for (Count done = 0; done < held; done += tc_radix_tile) {
    const Count first = static_cast<Count>(place.first) + done; // in the row
    const int left = static_cast<int>(held - done < tc_radix_tile ? held - done : tc_radix_tile);
    const int own = warp * (tc_radix_tile / tc_radix_warps) + lane;
    T x[tc_radix_keys];
    tc_radix_load<32>(x, own, left, [&](int i) { return in[start + first + i]; });
    TC_UNROLL
    for (int k = 0; k < tc_radix_digits / 32; ++k)
      memory.counts[warp][k * 32 + lane] = 0;
    __syncwarp();
    unsigned packed[tc_radix_keys / 4]; // digits of four elements
    TC_UNROLL
    for (int k = 0; k < tc_radix_keys; ++k) {
      const int digit =
          own + k * 32 < left ? tc_radix_digit<Descending>(x[k], rows.shift) : tc_radix_digits - 1;
      packed[k / 4] = (k % 4 == 0 ? 0 : packed[k / 4]) | static_cast<unsigned>(digit) << k % 4 * 8;
    }
    // The digit above 16 bits; below, a place: at first among the warp's elements of that digit.
    unsigned in_tile[tc_radix_keys];
    TC_UNROLL
    for (int k = 0; k < tc_radix_keys; ++k) {
      const int digit = static_cast<int>(packed[k / 4] >> k % 4 * 8 & 0xffu);
      const unsigned peers = tc_radix_peers(digit), earlier = peers & ((1u << lane) - 1u);
      const unsigned before = memory.counts[warp][digit];
      __syncwarp(); // all have read
      if (earlier == 0)
        memory.counts[warp][digit] = before + static_cast<unsigned>(tc_radix_bits_of(peers));
      __syncwarp(); // the counts are those of the next k
      in_tile[k] = (before + static_cast<unsigned>(tc_radix_bits_of(earlier))) |
                   static_cast<unsigned>(digit) << 16;
    }
    TC_BARRIER(); // all warps have counted; the tile before has been written
    unsigned all = 0;
    TC_UNROLL
    for (int w = 0; w < tc_radix_warps; ++w) {
      const unsigned of_warp = memory.counts[w][thread];
      memory.counts[w][thread] = all;
      all += of_warp;
    }
    const Count in_order = tc_radix_before(static_cast<Count>(all), memory.sums);
    memory.first[thread] = static_cast<unsigned>(in_order);
    memory.ahead[thread] = memory.next[thread] - in_order;
    memory.next[thread] += static_cast<Count>(all);
    TC_BARRIER(); // counts, first and ahead are whole
    TC_UNROLL
    for (int k = 0; k < tc_radix_keys; ++k) {
      const unsigned digit = in_tile[k] >> 16;
      in_tile[k] = (in_tile[k] & 0xffffu) + memory.first[digit] + memory.counts[warp][digit];
      memory.tile.values[in_tile[k]] = x[k];
    }
    TC_BARRIER();                       // the tile is in order
    unsigned digits[tc_radix_keys / 4]; // of four elements
    TC_UNROLL
    for (int k = 0; k < tc_radix_keys; ++k) {
      const int i = k * tc_radix_threads + thread;
      if (k % 4 == 0)
        digits[k / 4] = 0;
      if (i < left) {
        const T value = memory.tile.values[i];
        const int digit = tc_radix_digit<Descending>(value, rows.shift);
        digits[k / 4] |= static_cast<unsigned>(digit) << (k % 4 * 8);
        tc_radix_put(out, start + memory.ahead[digit] + i, value);
      }
    }
    if constexpr (moves_places) {
      Count was[tc_radix_keys];
      tc_radix_load<32>(was, own, left, [&](int i) {
        return static_cast<Count>(tc_radix_at(were, start, first + i));
      });
      TC_BARRIER(); // the values have been read
      TC_UNROLL
      for (int k = 0; k < tc_radix_keys; ++k)
        if (own + k * 32 < left)
          memory.tile.places[in_tile[k]] = was[k];
      TC_BARRIER(); // where they were is in order, too
      TC_UNROLL
      for (int k = 0; k < tc_radix_keys; ++k) {
        const int i = k * tc_radix_threads + thread;
        const unsigned digit = digits[k / 4] >> (k % 4 * 8) & 0xffu;
        if (i < left)
          tc_radix_put(places, start + memory.ahead[digit] + i, memory.tile.places[i]);
      }
    }
  }
}

// ---- short rows, of a length that was not known: one kernel in place of all these

/// What compares as the key of an element does in the order that is asked for.
template <bool Descending, class T> TC_FN auto tc_short_key(T x) {
  const auto key = tc_order_key(x);
  return Descending ? ~key : key;
}
template <class T> using tc_short_key_of = decltype(tc_order_key(T{}));

/// Of a block.
template <class T, int Kind> struct tc_short_memory {
  static constexpr int slots = tc_short_slots(Kind);
  tc_short_key_of<T> keys[tc_short_rows(Kind) * slots];
  unsigned short places[tc_short_rows(Kind) * slots];
};

/// A row of `length` elements, `Count` neighbours a thread; `longest`: of the rows of the block.
/// Behind its end stand the largest keys, and no element comes after them. Threads load and store
/// what is beside each other.
template <bool Descending, int Threads, int Count, class T, class Out, class Places, class Memory>
TC_FN void tc_short_sort(const T *in, Out out, Places places, long long start, int length,
                         int longest, Memory &memory) {
  using Key = tc_short_key_of<T>;
  const int lane = static_cast<int>(threadIdx.x) % Threads,
            row = static_cast<int>(threadIdx.x) / Threads, last = length > 0 ? length - 1 : 0;
  Key *keys = memory.keys + row * Memory::slots;
  unsigned short *were = memory.places + row * Memory::slots;
  constexpr int together = Count * sizeof(Key) > 64 ? Count / 2 : Count; // loads under way
  TC_NO_UNROLL
  for (int first = 0; first < Count; first += together) {
    Key loaded[together];
    TC_UNROLL
    for (int k = 0; k < together; ++k) {
      const int i = (first + k) * Threads + lane;
      loaded[k] = tc_short_key<Descending>(in[start + (i < length ? i : last)]);
    }
    TC_UNROLL
    for (int k = 0; k < together; ++k)
      keys[tc_sort_next_slot<Threads>(lane, first + k)] =
          (first + k) * Threads + lane < length ? loaded[k] : static_cast<Key>(~Key(0));
  }
  tc_meet(Threads);
  Key x[Count];
  unsigned short at[Count];
  TC_UNROLL
  for (int k = 0; k < Count; ++k) {
    x[k] = keys[tc_sort_own_slot<Count>(lane, k)];
    at[k] = static_cast<unsigned short>(lane * Count + k);
  }
  if (lane * Count < length)
    tc_sort_own<false, true>(x, at);
  TC_NO_UNROLL
  for (int width = 1; width < Threads && width * Count < longest; width *= 2)
    tc_merge_lists<false, true, Threads, false>(width, x, at, keys, were, length);
  tc_meet(Threads);
  TC_UNROLL
  for (int k = 0; k < Count; ++k)
    were[tc_sort_own_slot<Count>(lane, k)] = at[k];
  tc_meet(Threads);
  TC_UNROLL
  for (int k = 0; k < Count; ++k) {
    const int i = k * Threads + lane;
    if (i < length) {
      const int was = were[tc_sort_next_slot<Threads>(lane, k)];
      if constexpr (tc_radix_asked<Out>::value)
        tc_radix_put(out, start + i, in[start + was]);
      tc_radix_put(places, start + i, was);
    }
  }
}

/// The same of elements that fit a word with their places, a row a block.
template <bool Descending, int Threads, class T, class Out, class Places>
TC_FN void tc_short_sort_words(const T *in, Out out, Places places, long long start, int length,
                               unsigned *words) {
  const int lane = static_cast<int>(threadIdx.x);
  unsigned x[tc_short_keys];
  TC_UNROLL
  for (int k = 0; k < tc_short_keys; ++k) {
    const int i = tc_packed_place<Threads, 1, tc_short_keys>(lane, k);
    x[k] = tc_pack_element<Descending>(in[start + (i < length ? i : length - 1)],
                                       static_cast<unsigned>(i));
  }
  TC_UNROLL
  for (int k = 0; k < tc_short_keys; ++k)
    x[k] = tc_packed_place<Threads, 1, tc_short_keys>(lane, k) < length ? x[k] : ~0u;
  tc_sort_words<Threads, 1>(x, words);
  TC_UNROLL
  for (int k = 0; k < tc_short_keys; ++k) {
    const int i = tc_packed_place<Threads, 1, tc_short_keys>(lane, k);
    if (i < length) {
      const int was = static_cast<int>(x[k] >> 1 & 0x7fffu);
      if constexpr (tc_radix_asked<Out>::value)
        tc_radix_put(out, start + i, in[start + was]);
      tc_radix_put(places, start + i, was);
    }
  }
}

/// Threads a row, and rows of a block, as the kind says; rows.parts is how many rows there are.
/// Those behind the last one sort nothing.
template <bool Descending, int Kind, class T, class Out, class Places>
TC_FN void tc_short_rows_sort(const T *in, Out out, Places places, const tc_radix_rows &rows,
                              tc_short_memory<T, Kind> &memory) {
  constexpr int threads = tc_short_threads(Kind), keys = tc_short_keys;
  const long long row = static_cast<long long>(blockIdx.x) * tc_short_rows(Kind) +
                        static_cast<int>(threadIdx.x) / threads;
  const int all = static_cast<int>(rows.length), length = row < rows.parts ? all : 0;
  const long long start = row < rows.parts ? row * rows.length : 0;
  if (all <= threads * keys / 4)
    tc_short_sort<Descending, threads, keys / 4>(in, out, places, start, length, all, memory);
  else if (all <= threads * keys / 2)
    tc_short_sort<Descending, threads, keys / 2>(in, out, places, start, length, all, memory);
  else
    tc_short_sort<Descending, threads, keys>(in, out, places, start, length, all, memory);
}
/// A row a block, in shared memory that the launch sets.
template <bool Descending, int Kind, class T, class Out, class Places>
TC_FN void tc_short_rows_sort(const T *in, Out out, Places places, const tc_radix_rows &rows,
                              unsigned char *memory) {
  constexpr int threads = tc_short_threads(Kind), bytes = static_cast<int>(sizeof(T));
  const int length = static_cast<int>(rows.length);
  const long long start = static_cast<long long>(blockIdx.x) * length;
  if constexpr (tc_short_packs(Kind, bytes)) {
    tc_short_sort_words<Descending, threads>(in, out, places, start, length,
                                             reinterpret_cast<unsigned *>(memory));
  } else {
    using block_memory = tc_short_memory<T, Kind>;
    static_assert(sizeof(tc_short_key_of<T>) == (bytes <= 4 ? 4 : 8), "as tc_short_dynamic counts");
    tc_short_sort<Descending, threads, tc_short_keys>(in, out, places, start, length, length,
                                                      *reinterpret_cast<block_memory *>(memory));
  }
}
/// The same by one thread for each block, which goes through its rows.
template <bool Descending, int Kind, class T, class Out, class Places>
TC_FN void tc_short_rows_sort_alone(const T *in, Out out, Places places,
                                    const tc_radix_rows &rows) {
  constexpr int most = tc_short_length(Kind);
  const int length = static_cast<int>(rows.length);
  for (int r = 0; r < tc_short_rows(Kind); ++r) {
    const long long row = static_cast<long long>(blockIdx.x) * tc_short_rows(Kind) + r;
    if (row >= rows.parts)
      return;
    const T *x = in + row * rows.length;
    tc_short_key_of<T> keys[most];
    unsigned short at[most];
    for (int i = 0; i < length; ++i)
      keys[i] = tc_short_key<Descending>(x[i]);
    tc_sort_alone<false, true>(keys, at, length);
    for (int i = 0; i < length; ++i) {
      if constexpr (tc_radix_asked<Out>::value)
        tc_radix_put(out, row * rows.length + i, x[at[i]]);
      tc_radix_put(places, row * rows.length + i, static_cast<int>(at[i]));
    }
  }
}
