// Scans of tuples in parts that look back (tc_look_back.h), in the order of the row.
#pragma once

/// Members of a tuple are told of one by one, each kind of member `apart` words from the next.
struct tc_tell_members {
  long long *at;
  long long apart;
  unsigned launch;
  template <class T> TC_MEMBER T operator()(T x) {
    tc_tell(at, x, launch);
    at += apart;
    return x;
  }
};
struct tc_listen_to_members {
  const long long *at;
  long long apart;
  unsigned launch;
  template <class T> TC_MEMBER T operator()(T) {
    const T x = tc_listen<T>(at, launch);
    at += apart;
    return x;
  }
};

/// What the first `count` of the tuples at `at` add up to, `count` > 0; a warp's first lane gets
/// it.
template <class Combine>
TC_FN typename Combine::value tc_listen_in_order(const long long *at, long long apart, int count,
                                                 unsigned launch) {
  using V = typename Combine::value;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  tc_running<Combine> sum = {false, V{}};
  for (int first = 0; first < count; first += 32) {
    const int there = count - first < 32 ? count - first : 32; // lanes that hold one
    V x = {};
    if (lane < there) {
      tc_listen_to_members listen = {at + 2 * static_cast<long long>(first + lane), apart, launch};
      x = Combine::each(listen, x);
    }
    TC_UNROLL
    for (int distance = 1; distance < 32; distance *= 2) {
      tc_from_higher_lane higher = {distance};
      const V both = Combine::apply(x, Combine::each(higher, x));
      x = lane + distance < there ? both : x;
    }
    sum = tc_next(sum, x);
  }
  return sum.value;
}

/// tc_part_scan of tuples: `apart` words are those that one member has.
template <class Combine, int Together, int Threads, int Run, int Count>
TC_FN void tc_part_combine(typename Combine::value (&x)[Count], typename Combine::value *scratch,
                           tc_look_back<typename Combine::value, 2> &look_back, long long *told,
                           long long apart, long long rows, long long row, long long parts,
                           long long part) {
  using V = typename Combine::value;
  static_assert(Threads >= 64, "one warp listens to its group, one to all others");
  constexpr int warps = Threads / 32;
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  V base[Count / Run];
  const V total = tc_combine_runs<Combine, 32, Run>(x, base);
  if (lane == 31)
    scratch[warp] = total;
  TC_BARRIER();
  const long long groups = (parts + Together - 1) / Together;
  const long long group = part / Together;
  const int inside = static_cast<int>(part % Together);
  long long *const of_parts = told + 2 * row * parts, *const of_groups = told + 2 * rows * parts +
                                                                         2 * row * groups;
  const unsigned launch = look_back.launch;
  if (warp == 0) {
    V own = scratch[0];
    TC_UNROLL
    for (int i = 1; i < warps; ++i)
      own = Combine::apply(own, scratch[i]);
    if (lane == 0) {
      tc_tell_members tell = {of_parts + 2 * part, apart, launch};
      Combine::each(tell, own);
    }
    if (inside > 0) {
      const V before =
          tc_listen_in_order<Combine>(of_parts + 2 * group * Together, apart, inside, launch);
      if (lane == 0) {
        look_back.before[0] = before;
        tc_tell_members tell = {of_groups + 2 * group, apart, launch};
        if (inside == Together - 1)
          Combine::each(tell, Combine::apply(before, own));
      }
    }
  } else if (warp == 1 && group > 0) {
    const V before = tc_listen_in_order<Combine>(of_groups, apart, static_cast<int>(group), launch);
    if (lane == 0)
      look_back.before[1] = before;
  }
  TC_BARRIER();
  tc_running<Combine> start = {false, V{}};
  if (group > 0)
    start = tc_next(start, look_back.before[1]);
  if (inside > 0)
    start = tc_next(start, look_back.before[0]);
  for (int i = 0; i < warp; ++i)
    start = tc_next(start, scratch[i]);
  tc_combine_with_runs<Combine, 32, Run>(x, base, start);
}
