// Sorting rows: a stable merge sort. NaN is the largest value; -0.0 and 0.0 are equal. On the GPU
// the threads of a row hold `Count` neighbouring elements each: they sort their own in registers,
// then merge lists of one thread, two threads, four, ... through shared memory, each thread making
// `Count` elements of the merged list.
#pragma once

template <bool Descending, class T> TC_FN bool tc_sorts_before(T a, T b) {
  return Descending ? a > b || (tc_isnan(a) && !tc_isnan(b))
                    : a < b || (tc_isnan(b) && !tc_isnan(a));
}
template <class T> TC_FN T tc_largest_of(T) { return tc_limits<T>::highest(); }
TC_FN float tc_largest_of(float) { return TC_NAN; }
TC_FN double tc_largest_of(double) { return static_cast<double>(TC_NAN); }
/// What no element comes after: behind the row's elements it stays there.
template <bool Descending, class T> TC_FN T tc_sorts_last() {
  return Descending ? tc_limits<T>::lowest() : tc_largest_of(T(0));
}

template <class T> TC_FN void tc_swap_if(bool swap, T &a, T &b) {
  const T first = swap ? b : a;
  b = swap ? a : b;
  a = first;
}

/// The threads that share a list meet: those of a warp, or of the block.
TC_FN void tc_meet(int threads) {
  if (threads <= 32)
    __syncwarp();
  else
    TC_BARRIER();
}

/// Elements of shared memory that a row takes: one in 33 is left out, so that threads whose
/// elements are a power of two apart use different banks.
template <int Threads, int Count> TC_FN constexpr int tc_sort_pitch() {
  return Threads * Count + Threads * Count / 32 + 1;
}
TC_FN int tc_sort_slot(int element) { return element + element / 32; }
/// Of element k of those that a thread has beside each other: mostly at a constant distance of the
/// first.
template <int Count> TC_FN int tc_sort_own_slot(int lane, int k) {
  return 32 % Count == 0 ? tc_sort_slot(lane * Count) + k : tc_sort_slot(lane * Count + k);
}
/// Of the element k * Threads + lane.
template <int Threads> TC_FN int tc_sort_next_slot(int lane, int k) {
  return Threads % 32 == 0 ? tc_sort_slot(lane) + k * (Threads + Threads / 32)
                           : tc_sort_slot(k * Threads + lane);
}

template <bool Descending, bool Positions, int Count, class T>
TC_FN void tc_sort_own(T (&x)[Count], unsigned short (&at)[Count]) {
  TC_UNROLL
  for (int round = 0; round < Count; ++round) {
    TC_UNROLL
    for (int i = 0; i + 1 < Count; ++i) {
      if (i % 2 != round % 2)
        continue;
      const bool swap = tc_sorts_before<Descending>(x[i + 1], x[i]);
      tc_swap_if(swap, x[i], x[i + 1]);
      if constexpr (Positions)
        tc_swap_if(swap, at[i], at[i + 1]);
    }
  }
}

/// One merge, of every two lists of `width` threads each. Not Whole: the row has `length` elements,
/// and a second list that begins behind them is in its place.
template <bool Descending, bool Positions, int Threads, bool Whole = true, int Count, class T>
TC_FN void tc_merge_lists(int width, T (&x)[Count], unsigned short (&at)[Count], T *values,
                          unsigned short *places, int length = Threads * Count) {
  const int half = width * Count;
  const int lane = static_cast<int>(threadIdx.x) % Threads;
  const int first = lane / (2 * width) * 2 * half, second = first + half, end = second + half;
  tc_meet(2 * width); // the merge before has read what is written now
  if (Whole || second < length) {
    TC_UNROLL
    for (int k = 0; k < Count; ++k) {
      values[tc_sort_own_slot<Count>(lane, k)] = x[k];
      if constexpr (Positions)
        places[tc_sort_own_slot<Count>(lane, k)] = at[k];
    }
  }
  tc_meet(2 * width);
  if (!Whole && second >= length)
    return;
  const int before = lane % (2 * width) * Count; // elements of the merged list before this thread's
  int low = before > half ? before - half : 0, high = before < half ? before : half;
  while (low < high) { // how many of them are the first list's
    const int middle = (low + high) / 2;
    const T of_first = values[tc_sort_slot(first + middle)];
    const T of_second = values[tc_sort_slot(second + before - 1 - middle)];
    if (tc_sorts_before<Descending>(of_second, of_first))
      high = middle;
    else
      low = middle + 1;
  }
  int a = first + low, b = second + before - low;
  T next_a = values[tc_sort_slot(a < second ? a : second - 1)];
  T next_b = values[tc_sort_slot(b < end ? b : end - 1)];
  TC_UNROLL
  for (int k = 0; k < Count; ++k) {
    const bool from_second =
        a >= second || (b < end && tc_sorts_before<Descending>(next_b, next_a));
    x[k] = from_second ? next_b : next_a;
    if constexpr (Positions)
      at[k] = places[tc_sort_slot(from_second ? b : a)];
    a += from_second ? 0 : 1;
    b += from_second ? 1 : 0;
    const int next = from_second ? b : a;
    const T value = values[tc_sort_slot(next < end ? next : end - 1)];
    next_a = from_second ? next_a : value;
    next_b = from_second ? value : next_b;
  }
}

/// Sorts the rows of a block: Rows of them, Threads neighbouring threads a row (a power of two; all
/// threads of the block take part), Count neighbouring elements a thread. With Positions, `at` gets
/// where each element was in its row. `memory`: of
/// each row a pitch of values, then a pitch of positions.
template <bool Descending, bool Positions, int Threads, int Rows, int Count, class T>
TC_FN void tc_row_sort(T (&x)[Count], unsigned short (&at)[Count], unsigned char *memory) {
  const int lane = static_cast<int>(threadIdx.x) % Threads;
  if constexpr (Positions) {
    TC_UNROLL
    for (int k = 0; k < Count; ++k)
      at[k] = static_cast<unsigned short>(lane * Count + k);
  }
  tc_sort_own<Descending, Positions>(x, at);
  constexpr int pitch = tc_sort_pitch<Threads, Count>();
  const int row = static_cast<int>(threadIdx.x) / Threads;
  T *values = reinterpret_cast<T *>(memory) + row * pitch;
  unsigned short *places =
      reinterpret_cast<unsigned short *>(memory + (sizeof(T) * Rows * pitch + 1) / 2 * 2) +
      row * pitch;
  TC_BARRIER(); // `memory` may hold what was sorted before
  for (int width = 1; width < Threads; width *= 2)
    tc_merge_lists<Descending, Positions, Threads>(width, x, at, values, places);
}

/// Sorts the first `length` elements of a row that one thread holds.
template <bool Descending, bool Positions, int Count, class T>
TC_FN void tc_sort_alone(T (&x)[Count], unsigned short (&at)[Count], int length) {
  T other[Count];
  unsigned short other_at[Positions ? Count : 1];
  if constexpr (Positions)
    for (int k = 0; k < length; ++k)
      at[k] = static_cast<unsigned short>(k);
  T *from = x, *to = other;
  unsigned short *from_at = at, *to_at = other_at;
  for (int width = 1; width < length; width *= 2) {
    for (int first = 0; first < length; first += 2 * width) {
      const int second = first + width < length ? first + width : length;
      const int end = first + 2 * width < length ? first + 2 * width : length;
      int a = first, b = second;
      for (int k = first; k < end; ++k) {
        const bool from_second =
            a >= second || (b < end && tc_sorts_before<Descending>(from[b], from[a]));
        const int source = from_second ? b++ : a++;
        to[k] = from[source];
        if constexpr (Positions)
          to_at[k] = from_at[source];
      }
    }
    T *const swapped = from;
    from = to;
    to = swapped;
    unsigned short *const swapped_at = from_at;
    from_at = to_at;
    to_at = swapped_at;
  }
  for (int k = 0; from != x && k < length; ++k) {
    x[k] = from[k];
    if constexpr (Positions)
      at[k] = from_at[k];
  }
}
