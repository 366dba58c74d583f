// Reductions. A combiner has identity<T>(), and apply(a, b) which merges two partial results; some
// also take(a, x), where one element more costs less than a merge.
// Threads that share a row merge theirs with shuffles (rows of up to 32 threads) and shared memory
// (more). Every thread of the row gets the result, the same bits in each.
#pragma once

template <class T>
struct tc_limits; // lowest and highest value: what a maximum or minimum starts from
#define TC_LIMITS(T, low, high)                                                                    \
  template <> struct tc_limits<T> {                                                                \
    TC_FN T lowest() { return low; }                                                               \
    TC_FN T highest() { return high; }                                                             \
  };
TC_LIMITS(float, -TC_INF, TC_INF)
TC_LIMITS(double, -static_cast<double>(TC_INF), static_cast<double>(TC_INF))
TC_LIMITS(bool, false, true)
TC_LIMITS(signed char, -128, 127)
TC_LIMITS(unsigned char, 0, 255)
TC_LIMITS(short, -32768, 32767)
TC_LIMITS(unsigned short, 0, 65535)
TC_LIMITS(int, -2147483647 - 1, 2147483647)
TC_LIMITS(unsigned, 0u, 4294967295u)
TC_LIMITS(long long, -9223372036854775807ll - 1, 9223372036854775807ll)
TC_LIMITS(unsigned long long, 0ull, 18446744073709551615ull)
#undef TC_LIMITS

#ifndef TC_DEVICE
/// A sum of doubles and what its roundings lost (Knuth's TwoSum), for one thread that adds many.
struct tc_long_sum {
  double sum, lost;
  tc_long_sum() : sum(0), lost(0) {}
  explicit tc_long_sum(double x) : sum(x), lost(0) {}
  tc_long_sum &operator+=(double x) {
    const double total = sum + x, part = total - sum;
    lost += (sum - (total - part)) + (x - part);
    sum = total;
    return *this;
  }
  /// Where the sum is an infinity or NaN, nothing is lost.
  explicit operator double() const { return sum - sum == 0 ? sum + lost : sum; }
};
inline tc_long_sum tc_add(tc_long_sum a, tc_long_sum b) {
  a += b.sum;
  a += b.lost;
  return a;
}
#endif

struct tc_sum {
  template <class T> TC_FN T identity() { return T(0); }
  template <class T> TC_FN T apply(T a, T b) { return tc_add(a, b); }
};
struct tc_prod {
  template <class T> TC_FN T identity() { return T(1); }
  template <class T> TC_FN T apply(T a, T b) { return tc_mul(a, b); }
};
struct tc_max {
  template <class T> TC_FN T identity() { return tc_limits<T>::lowest(); }
  template <class T> TC_FN T apply(T a, T b) { return tc_maximum(a, b); }
};
struct tc_min {
  template <class T> TC_FN T identity() { return tc_limits<T>::highest(); }
  template <class T> TC_FN T apply(T a, T b) { return tc_minimum(a, b); }
};
struct tc_any {
  template <class T> TC_FN T identity() { return T(0); }
  template <class T> TC_FN T apply(T a, T b) { return a || b; }
};
struct tc_all {
  template <class T> TC_FN T identity() { return T(1); }
  template <class T> TC_FN T apply(T a, T b) { return a && b; }
};
struct tc_xor_sum {
  template <class T> TC_FN T identity() { return T(0); }
  template <class T> TC_FN T apply(T a, T b) { return static_cast<T>(a ^ b); }
};

/// A value and where it stands. NaN wins over everything; among equals the first position wins.
template <class T> struct tc_place {
  T value;
  long long index;
};
TC_FN bool tc_is_later(long long a, long long b) { return a > b; }
struct tc_argmax {
  template <class P> TC_FN P identity() {
    return {tc_limits<decltype(P::value)>::lowest(), 9223372036854775807ll};
  }
  template <class T> TC_FN tc_place<T> apply(tc_place<T> a, tc_place<T> b) {
    const bool a_nan = tc_isnan(a.value), b_nan = tc_isnan(b.value);
    const bool same = a_nan ? b_nan : a.value == b.value;
    const bool first = same ? a.index < b.index : a_nan || (!b_nan && a.value > b.value);
    return {first ? a.value : b.value, first ? a.index : b.index};
  }
  /// `a`, and an element behind all that `a` has seen.
  template <class T> TC_FN tc_place<T> take(tc_place<T> a, T x, long long index) {
    const bool comes_first = !(x <= a.value) && !tc_isnan(a.value);
    return {comes_first ? x : a.value, comes_first ? index : a.index};
  }
};
struct tc_argmin {
  template <class P> TC_FN P identity() {
    return {tc_limits<decltype(P::value)>::highest(), 9223372036854775807ll};
  }
  template <class T> TC_FN tc_place<T> apply(tc_place<T> a, tc_place<T> b) {
    const bool a_nan = tc_isnan(a.value), b_nan = tc_isnan(b.value);
    const bool same = a_nan ? b_nan : a.value == b.value;
    const bool first = same ? a.index < b.index : a_nan || (!b_nan && a.value < b.value);
    return {first ? a.value : b.value, first ? a.index : b.index};
  }
  template <class T> TC_FN tc_place<T> take(tc_place<T> a, T x, long long index) {
    const bool comes_first = !(x >= a.value) && !tc_isnan(a.value);
    return {comes_first ? x : a.value, comes_first ? index : a.index};
  }
};
/// Where no element came before the identity all are equal to it: the first one counts.
template <class T> TC_FN tc_place<T> tc_found(tc_place<T> place) {
  return {place.value, place.index == 9223372036854775807ll ? 0 : place.index};
}

/// Mean, sum of squared distances from it, and count (Chan's merge).
template <class T> struct tc_moments { T mean, m2, weight; };
struct tc_welford {
  template <class M> TC_FN M identity() { return {0, 0, 0}; }
  template <class T> TC_FN tc_moments<T> apply(tc_moments<T> a, tc_moments<T> b) {
    const T weight = a.weight + b.weight;
    const T share = weight == T(0) ? T(0) : b.weight / weight;
    const T delta = b.mean - a.mean;
    return {a.mean + delta * share, a.m2 + b.m2 + delta * delta * a.weight * share, weight};
  }
  /// `a` and one element more (Welford's step).
  template <class T> TC_FN tc_moments<T> take(tc_moments<T> a, T x) {
    const T weight = a.weight + T(1), delta = x - a.mean;
    const T mean = a.mean + delta * tc_near_inverse(weight);
    return {mean, a.m2 + delta * (x - mean), weight};
  }
  /// `a` and those of V elements whose `weights` are 1, the others being 0 with weight 0: moments
  /// of their own, which are merged. Divides once, and waits for `a` once. `whole`: all weights
  /// are 1.
  template <class T, int V>
  TC_FN tc_moments<T> take_run(tc_moments<T> a, const T (&x)[V], const T (&weights)[V],
                               bool whole) {
    T count = T(V), inverse = T(1) / T(V);
    if (!whole) {
      count = weights[0];
      TC_UNROLL
      for (int j = 1; j < V; ++j)
        count += weights[j];
      inverse = count == T(0) ? T(0) : tc_near_inverse(count);
    }
    T mean = x[0] * inverse;
    TC_UNROLL
    for (int j = 1; j < V; ++j)
      mean = tc_fma(x[j], inverse, mean);
    T m2 = 0;
    if (whole) {
      TC_UNROLL
      for (int j = 0; j < V; ++j)
        m2 = tc_fma(x[j] - mean, x[j] - mean, m2);
    } else {
      TC_UNROLL
      for (int j = 0; j < V; ++j) {
        const T delta = (x[j] - mean) * weights[j];
        m2 = tc_fma(delta, delta, m2);
      }
    }
    const T weight = a.weight + count;
    const T share = weight == T(0) ? T(0) : count * tc_near_inverse(weight);
    const T delta = mean - a.mean;
    return {tc_fma(delta, share, a.mean), tc_fma(delta * delta, a.weight * share, a.m2 + m2),
            weight};
  }
};

/// exp of what a sum adds to larger terms: the relative error is that of x in float, which counts
/// the less the smaller the term.
TC_FN float tc_quick_exp(float x) { return tc_quick_exp2(x * 1.44269504f); }
TC_FN double tc_quick_exp(double x) { return tc_exp(x); }

/// Running maximum and the sum of exp(x - maximum).
template <class T> struct tc_exp_sum { T max, sum; };
struct tc_online_softmax {
  template <class S> TC_FN S identity() { return {tc_limits<decltype(S::max)>::lowest(), 0}; }
  template <class T> TC_FN tc_exp_sum<T> apply(tc_exp_sum<T> a, tc_exp_sum<T> b) {
    const T max = tc_maximum(a.max, b.max);
    // exp(0) where the maximum is infinite: inf - inf would be NaN
    const T scale_a = a.max == max ? T(1) : tc_exp(a.max - max);
    const T scale_b = b.max == max ? T(1) : tc_exp(b.max - max);
    return {max, a.sum * scale_a + b.sum * scale_b};
  }
  template <class T> TC_FN tc_exp_sum<T> take(tc_exp_sum<T> a, T x) {
    const T scale = a.max == x ? T(1) : tc_exp(x > a.max ? a.max - x : x - a.max);
    return {tc_maximum(a.max, x), x > a.max ? a.sum * scale + T(1) : a.sum + scale};
  }
  /// `a` and V elements more, without a branch: one new maximum, to which all sums are brought. Of
  /// -infs alone the sum is 0, of anything with +inf it is +inf.
  template <class T, int V> TC_FN tc_exp_sum<T> take_run(tc_exp_sum<T> a, const T (&x)[V]) {
    T max = a.max;
    TC_UNROLL
    for (int j = 0; j < V; ++j)
      max = tc_maximum(max, x[j]);
    const T from = tc_isinf(max) ? T(0) : max; // inf - inf would be NaN
    T sum = a.sum * tc_quick_exp(a.max - from);
    TC_UNROLL
    for (int j = 0; j < V; ++j)
      sum += tc_quick_exp(x[j] - from);
    return {max, sum};
  }
};

template <class T> TC_FN T tc_exchange(T x, int lane_mask) { return tc_shfl_xor(x, lane_mask); }
TC_FN bool tc_exchange(bool x, int lane_mask) {
  return tc_shfl_xor(static_cast<int>(x), lane_mask) != 0;
}
template <class T> TC_FN tc_place<T> tc_exchange(tc_place<T> x, int lane_mask) {
  return {tc_exchange(x.value, lane_mask), tc_exchange(x.index, lane_mask)};
}
template <class T> TC_FN tc_moments<T> tc_exchange(tc_moments<T> x, int lane_mask) {
  return {tc_exchange(x.mean, lane_mask), tc_exchange(x.m2, lane_mask),
          tc_exchange(x.weight, lane_mask)};
}
template <class T> TC_FN tc_exp_sum<T> tc_exchange(tc_exp_sum<T> x, int lane_mask) {
  return {tc_exchange(x.max, lane_mask), tc_exchange(x.sum, lane_mask)};
}

/// Merges over groups of Lanes (a power of two up to 32) neighbouring lanes of a full warp.
template <class Op, int Lanes, class T> TC_FN T tc_lanes_reduce(T x) {
  if constexpr (Lanes == 1) {
    return x;
  } else {
#ifdef TC_DEVICE
    TC_UNROLL
    for (int distance = Lanes / 2; distance > 0; distance /= 2)
      x = Op::apply(x, tc_exchange(x, distance));
    return x;
#else
    return tc_warp_butterfly(
        x, [](T a, T b) { return Op::apply(a, b); }, Lanes);
#endif
  }
}

/// Of sums of exponentials: the maximum first, to which each lane then brings its sum once.
template <class Op, int Lanes, class T> TC_FN tc_exp_sum<T> tc_lanes_reduce(tc_exp_sum<T> x) {
  const T max = tc_lanes_reduce<tc_max, Lanes>(x.max);
  const T from = tc_isinf(max) ? T(0) : max;
  return {max, tc_lanes_reduce<tc_sum, Lanes>(x.sum * tc_quick_exp(x.max - from))};
}

/// Merges over groups of Threads neighbouring threads of the block. With more than 32, `scratch`
/// (one slot a warp of the block, used by no other reduction of the kernel) carries the warps'
/// results and all threads of the block meet in a barrier.
template <class Op, int Threads, class T> TC_FN T tc_row_reduce(T x, T *scratch) {
  if constexpr (Threads <= 32) {
    return tc_lanes_reduce<Op, Threads>(x);
  } else {
    constexpr int warps = Threads / 32;
    x = tc_lanes_reduce<Op, 32>(x);
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    if (lane == 0)
      scratch[warp] = x;
    TC_BARRIER();
    const int first = warp / warps * warps;
    if constexpr (__is_class(T)) { // dear to merge: as a tree
      return tc_lanes_reduce<Op, warps>(scratch[first + lane % warps]);
    } else {
      T y = scratch[first];
      TC_UNROLL
      for (int i = 1; i < warps; ++i)
        y = Op::apply(y, scratch[first + i]);
      return y;
    }
  }
}

/// Merges over the block's threads whose number has the same remainder by Columns; `scratch` has
/// one slot a thread of the block, used by no other reduction of the kernel. A few numbers every
/// thread adds up for itself; of more, and of what is dear to merge (statistics, sums of
/// exponentials, places), as many threads as are left of a column merge two each, again and again.
template <class Op, int Columns, int Rows, class T> TC_FN T tc_column_reduce(T x, T *scratch) {
  const int thread = static_cast<int>(threadIdx.x), column = thread % Columns;
  scratch[thread] = x;
  TC_BARRIER();
  if constexpr (Rows <= (__is_class(T) ? 2 : 8)) {
    T y = scratch[column];
    TC_UNROLL
    for (int i = 1; i < Rows; ++i)
      y = Op::apply(y, scratch[column + i * Columns]);
    return y;
  } else {
    TC_UNROLL
    for (int left = Rows; left > 1; left = (left + 1) / 2) {
      const int half = (left + 1) / 2;
      if (thread / Columns + half < left) {
        x = Op::apply(x, scratch[thread + half * Columns]);
        scratch[thread] = x;
      }
      TC_BARRIER();
    }
    return scratch[column];
  }
}

/// The largest power of two up to both, and up to 32; 1 if one of them is below that.
TC_FN constexpr int tc_power_below(int a, int b) {
  int power = 1;
  while (power < 32 && power * 2 <= a && power * 2 <= b)
    power *= 2;
  return power;
}

/// Merges x[i] of all threads of the block by the remainder of thread * Count + i by Kept; thread k
/// < Kept gets those of k in x[0]. Threads: of the block, such that Kept divides Threads * Count;
/// `scratch` has tc_piece_slots<Threads, Count>() slots, used by no other reduction of the kernel.
template <int Threads, int Count> TC_FN constexpr int tc_piece_slots() {
  return Threads * (Count > 1 ? Count + 1 : 1);
}
template <class Op, int Threads, int Kept, int Count, class T>
TC_FN void tc_pieces_reduce(T (&x)[Count], T *scratch) {
  constexpr int together = 8; // that a thread merges at a time
  static_assert(Threads * Count % Kept == 0 && Kept <= Threads, "rows of equally many threads");
  const int thread = static_cast<int>(threadIdx.x);
  // Threads' first slots lie in different banks.
  const auto slot = [](int i) { return Count > 1 ? i + i / Count : i; };
  TC_UNROLL
  for (int i = 0; i < Count; ++i)
    scratch[slot(thread * Count + i)] = x[i];
  TC_BARRIER();
  TC_UNROLL
  for (int left = Threads * Count / Kept; left > 1; left = (left + together - 1) / together) {
    const int apart = (left + together - 1) / together * Kept;
    for (int first = thread; first < apart; first += Threads) {
      T y = scratch[slot(first)];
      for (int i = first + apart; i < left * Kept; i += apart)
        y = Op::apply(y, scratch[slot(i)]);
      scratch[slot(first)] = y; // which nobody else reads now
    }
    TC_BARRIER();
  }
  if (thread < Kept)
    x[0] = scratch[slot(thread)];
}

/// Merges each of x over the block's threads whose number has the same remainder by Columns, of
/// which there are Rows; the first of them gets the results. Columns: a power of two up to 32;
/// `scratch` has Columns * Count slots a warp of the block, used by no other reduction of the
/// kernel.
template <class Op, int Columns, int Rows, int Count, class T>
TC_FN void tc_columns_reduce(T (&x)[Count], T *scratch) {
  constexpr int warps = Columns * Rows / 32;
  static_assert(warps > 0, "whole warps");
  TC_UNROLL
  for (int i = 0; i < Count; ++i) {
    TC_UNROLL
    for (int distance = 16; distance >= Columns; distance /= 2)
      x[i] = Op::apply(x[i], tc_exchange(x[i], distance));
  }
  if constexpr (warps > 1) {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread % 32 < Columns) {
      T *const to = scratch + (thread / 32 * Columns + thread % 32) * Count;
      TC_UNROLL
      for (int i = 0; i < Count; ++i)
        to[i] = x[i];
    }
    TC_BARRIER();
    // As many threads as there are merge one value of one column each, if that is any help.
    constexpr int values = Columns * Count;
    constexpr int each = tc_power_below(Columns * Rows / values, warps / 2);
    if constexpr (each > 1) {
      const int value = thread / each, part = thread % each;
      T y = Op::template identity<T>();
      if (value < values) {
        y = scratch[part * values + value];
        for (int warp = part + each; warp < warps; warp += each)
          y = Op::apply(y, scratch[warp * values + value]);
      }
      TC_UNROLL
      for (int distance = each / 2; distance > 0; distance /= 2)
        y = Op::apply(y, tc_exchange(y, distance));
      if (value < values && part == 0)
        scratch[value] = y; // which nobody else has read
      TC_BARRIER();
      if (thread < Columns) {
        TC_UNROLL
        for (int i = 0; i < Count; ++i)
          x[i] = scratch[thread * Count + i];
      }
    } else {
      for (int warp = 1; thread < Columns && warp < warps; ++warp) {
        TC_UNROLL
        for (int i = 0; i < Count; ++i)
          x[i] = Op::apply(x[i], scratch[(warp * Columns + thread) * Count + i]);
      }
    }
  }
}

/// Merges the accumulators that one thread kept apart.
template <class Op, int Count, class T> TC_FN T tc_merge(const T (&parts)[Count]) {
  T x = parts[0];
  for (int i = 1; i < Count; ++i)
    x = Op::apply(x, parts[i]);
  return x;
}

/// log(exp(a) + exp(b)) without overflow.
struct tc_logsumexp {
  template <class T> TC_FN T identity() { return tc_limits<T>::lowest(); }
  template <class T> TC_FN T apply(T a, T b) {
    const T max = tc_maximum(a, b), min = tc_minimum(a, b);
    return max == min ? max + tc_log(T(2)) : max + tc_log1p(tc_exp(min - max));
  }
};

/// Scans what a group of Width lanes holds of a row; `base` gets what comes before each of the
/// lane's runs in the group, x what comes before each element in its run, that element included.
/// Gives what the group adds up to. The order of runs is that of tc_row_scan.
template <class Op, int Width, int Run, int Count, class T>
TC_FN T tc_scan_runs(T (&x)[Count], T (&base)[Count / Run]) {
  constexpr int runs = Count / Run;
  const int lane = static_cast<int>(threadIdx.x) % Width;
  TC_UNROLL
  for (int k = 0; k < runs; ++k) {
    TC_UNROLL
    for (int i = 1; i < Run; ++i)
      x[k * Run + i] = Op::apply(x[k * Run + i - 1], x[k * Run + i]);
    base[k] = x[k * Run + Run - 1];
  }
  TC_UNROLL
  for (int distance = 1; distance < Width; distance *= 2) {
    TC_UNROLL
    for (int k = 0; k < runs; ++k) {
      const T before = __shfl_up_sync(0xffffffffu, base[k], distance, Width);
      if (lane >= distance)
        base[k] = Op::apply(before, base[k]);
    }
  }
  T total = Op::template identity<T>(); // of the group's runs so far
  TC_UNROLL
  for (int k = 0; k < runs; ++k) {
    const T all = __shfl_sync(0xffffffffu, base[k], Width - 1, Width);
    base[k] = __shfl_up_sync(0xffffffffu, base[k], 1, Width);
    base[k] = Op::apply(total, lane == 0 ? Op::template identity<T>() : base[k]);
    total = Op::apply(total, all);
  }
  return total;
}
/// Whether a scan may go on with sums of exponentials of distances from the largest element, which
/// takes an exponential and a logarithm an element; combining two takes as many, for each step of
/// the scan.
template <class Op, class T> constexpr bool tc_sums_exponentials = false;
template <> constexpr bool tc_sums_exponentials<tc_logsumexp, float> = true;

/// x becomes exponentials of distances from the group's largest element, if no group of the warp
/// has elements so far apart that those of the smallest are lost, no NaN and no infinity; else
/// false, and x stays.
template <int Width, int Count> TC_FN bool tc_take_exponentials(float (&x)[Count], float &largest) {
  constexpr float kApart = 60.0f;
  float low = TC_INF, high = -TC_INF;
  TC_UNROLL
  for (int i = 0; i < Count; ++i) {
    high = tc_maximum(high, x[i]);
    low = x[i] > -TC_INF && x[i] < low ? x[i] : low; // no sum shows what is no more than 0
  }
  TC_UNROLL
  for (int distance = Width / 2; distance > 0; distance /= 2) {
    high = tc_maximum(high, __shfl_xor_sync(0xffffffffu, high, distance));
    low = tc_minimum(low, __shfl_xor_sync(0xffffffffu, low, distance));
  }
  if (!__all_sync(0xffffffffu, high - low < kApart))
    return false;
  largest = high;
  const float base = high > -TC_INF ? high : 0.0f;
  TC_UNROLL
  for (int i = 0; i < Count; ++i)
    x[i] = tc_exp(x[i] - base);
  return true;
}
/// Logarithms of what such sums and `start`, a logarithm of what comes before, add up to.
template <int Run, int Count>
TC_FN void tc_take_logarithms(float (&x)[Count], const float (&base)[Count / Run], float start,
                              float largest) {
  const float highest = tc_maximum(start, largest);
  const float top = highest == -TC_INF ? 0.0f : highest;
  const float before = start == top ? 1.0f : tc_exp(start - top);
  const float share = largest == top ? 1.0f : tc_exp(largest - top);
  TC_UNROLL
  for (int i = 0; i < Count; ++i)
    x[i] = top + tc_log(tc_fma(share, base[i / Run] + x[i], before));
}
/// tc_scan_runs, by sums where those do (`sums`).
template <class Op, int Width, int Run, int Count, class T>
TC_FN T tc_scan_costly(T (&x)[Count], T (&base)[Count / Run], bool &sums, T &largest) {
  if constexpr (tc_sums_exponentials<Op, T>) {
    sums = tc_take_exponentials<Width>(x, largest);
    if (sums)
      return largest + tc_log(tc_scan_runs<tc_sum, Width, Run>(x, base));
  }
  return tc_scan_runs<Op, Width, Run>(x, base);
}

/// What comes before each run goes into its elements.
template <class Op, int Run, int Count, class T>
TC_FN void tc_add_to_runs(T (&x)[Count], const T (&base)[Count / Run]) {
  TC_UNROLL
  for (int k = 0; k < Count / Run; ++k) {
    TC_UNROLL
    for (int i = 0; i < Run; ++i)
      x[k * Run + i] = Op::apply(base[k], x[k * Run + i]);
  }
}

/// Inclusive scan of a row that Threads neighbouring threads hold. x holds runs of Run neighbouring
/// elements; a warp's runs are neighbours in the order of k * 32 + lane (fewer threads a row: k *
/// Threads + lane), k being a thread's run, and one warp's follow the other's. `scratch` as in
/// tc_row_reduce. All 32 lanes of a warp take part.
template <class Op, int Threads, int Run, int Count, class T>
TC_FN void tc_row_scan(T (&x)[Count], T *scratch) {
  constexpr int width = Threads < 32 ? Threads : 32, warps = Threads < 32 ? 1 : Threads / 32;
  if constexpr (Threads == 1) { // the row is a thread's
    TC_UNROLL
    for (int i = 1; i < Count; ++i)
      x[i] = Op::apply(x[i - 1], x[i]);
    return;
  }
  T base[Count / Run];
  [[maybe_unused]] bool sums = false;
  [[maybe_unused]] T largest = T(), start = Op::template identity<T>();
  [[maybe_unused]] const T total = tc_scan_costly<Op, width, Run>(x, base, sums, largest);
  if constexpr (warps > 1) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 == 31)
      scratch[warp] = total;
    TC_BARRIER();
    for (int i = warp / warps * warps; i < warp; ++i)
      start = Op::apply(start, scratch[i]);
    TC_UNROLL
    for (int k = 0; k < Count / Run && !sums; ++k)
      base[k] = Op::apply(start, base[k]);
  }
  if constexpr (tc_sums_exponentials<Op, T>) {
    if (sums) {
      tc_take_logarithms<Run>(x, base, start, largest);
      return;
    }
  }
  tc_add_to_runs<Op, Run>(x, base);
}
