// Scans of tuples by a function that is associative and nothing else: it has no element that
// changes nothing, and what is combined stands in the order of the row. A combiner has a type
// `value`, apply(a, b), a before b, and each(f, x), the tuple of f of x's members.
#pragma once

/// What comes before an element, if anything does.
template <class Combine> struct tc_running {
  bool is_there;
  typename Combine::value value;
};
/// With one more behind it.
template <class Combine>
TC_FN tc_running<Combine> tc_next(const tc_running<Combine> &before,
                                  const typename Combine::value &x) {
  const typename Combine::value both = Combine::apply(before.value, x);
  return {true, before.is_there ? both : x};
}

struct tc_from_lane { // of `width` neighbouring lanes
  int lane, width;
  template <class T> TC_MEMBER T operator()(T x) const {
    return static_cast<T>(__shfl_sync(0xffffffffu, x, lane, width));
  }
};
struct tc_from_lower_lane {
  int distance, width;
  template <class T> TC_MEMBER T operator()(T x) const {
    return static_cast<T>(__shfl_up_sync(0xffffffffu, x, distance, width));
  }
};
struct tc_from_higher_lane {
  int distance;
  template <class T> TC_MEMBER T operator()(T x) const {
    return static_cast<T>(__shfl_down_sync(0xffffffffu, x, distance, 32));
  }
};

/// As tc_scan_runs: x becomes what comes before each element in its run, that element included, and
/// base[k] what comes before run k in the group, of which there is nothing for the first lane's
/// first run. Gives what the group adds up to.
template <class Combine, int Width, int Run, int Count>
TC_FN typename Combine::value tc_combine_runs(typename Combine::value (&x)[Count],
                                              typename Combine::value (&base)[Count / Run]) {
  using V = typename Combine::value;
  constexpr int runs = Count / Run;
  const int lane = static_cast<int>(threadIdx.x) % Width;
  TC_UNROLL
  for (int k = 0; k < runs; ++k) {
    TC_UNROLL
    for (int i = 1; i < Run; ++i)
      x[k * Run + i] = Combine::apply(x[k * Run + i - 1], x[k * Run + i]);
    base[k] = x[k * Run + Run - 1];
  }
  TC_UNROLL
  for (int distance = 1; distance < Width; distance *= 2) {
    tc_from_lower_lane lower = {distance, Width};
    TC_UNROLL
    for (int k = 0; k < runs; ++k) {
      const V both = Combine::apply(Combine::each(lower, base[k]), base[k]);
      base[k] = lane >= distance ? both : base[k];
    }
  }
  tc_from_lane last = {Width - 1, Width};
  tc_from_lower_lane neighbour = {1, Width};
  V total = Combine::each(last, base[0]); // of the group's runs so far
  base[0] = Combine::each(neighbour, base[0]);
  TC_UNROLL
  for (int k = 1; k < runs; ++k) {
    const V all = Combine::each(last, base[k]);
    const V both = Combine::apply(total, Combine::each(neighbour, base[k]));
    base[k] = lane == 0 ? total : both;
    total = Combine::apply(total, all);
  }
  return total;
}

/// What comes before each run goes into its elements; `start` comes before all of the group.
template <class Combine, int Width, int Run, int Count>
TC_FN void tc_combine_with_runs(typename Combine::value (&x)[Count],
                                const typename Combine::value (&base)[Count / Run],
                                const tc_running<Combine> &start) {
  const bool is_first = static_cast<int>(threadIdx.x) % Width == 0;
  TC_UNROLL
  for (int k = 0; k < Count / Run; ++k) {
    tc_running<Combine> before = {true, base[k]};
    if (k == 0 && is_first)
      before = start;
    else if (start.is_there)
      before.value = Combine::apply(start.value, base[k]);
    TC_UNROLL
    for (int i = 0; i < Run; ++i)
      x[k * Run + i] = tc_next(before, x[k * Run + i]).value;
  }
}

/// tc_row_scan of tuples; `start` comes before the row. Elements behind the row's end may be
/// anything.
template <class Combine, int Threads, int Run, int Count>
TC_FN void tc_row_combine(typename Combine::value (&x)[Count], typename Combine::value *scratch,
                          tc_running<Combine> start) {
  constexpr int width = Threads < 32 ? Threads : 32, warps = Threads < 32 ? 1 : Threads / 32;
  typename Combine::value base[Count / Run];
  [[maybe_unused]] const typename Combine::value total =
      tc_combine_runs<Combine, width, Run>(x, base);
  if constexpr (warps > 1) {
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (threadIdx.x % 32 == 31)
      scratch[warp] = total;
    TC_BARRIER();
    for (int i = warp / warps * warps; i < warp; ++i)
      start = tc_next(start, scratch[i]);
  }
  tc_combine_with_runs<Combine, width, Run>(x, base, start);
}
