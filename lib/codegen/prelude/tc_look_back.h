// Scans of rows that are divided in parts, a block each, in one launch. A block scans its part,
// tells the others what the part adds up to, and takes from those before it where it goes on. What
// is told of a group of neighbouring parts is told again as one: nobody waits for a chain, and
// everything is added up in one order, whichever block is first.
//
// Blocks wait for blocks of lower numbers, which a GPU starts before them.
#pragma once

/// What is told: half of a value in each word, beside the number of the launch that tells it. Each
/// word is written and read at once, so nothing else has to be ordered, and what an earlier launch
/// left needs no clearing. 16-byte aligned.
#ifdef TC_DEVICE
TC_FN void tc_write_words(long long *at, unsigned long long first, unsigned long long second) {
  asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(first), "l"(second)
               : "memory");
}
TC_FN void tc_read_words(const long long *at, unsigned long long &first,
                         unsigned long long &second) {
  asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];"
               : "=l"(first), "=l"(second)
               : "l"(at)
               : "memory");
}
TC_FN void tc_let_others_run() {}
#else
extern "C" int sched_yield(void) noexcept;
TC_FN void tc_write_words(long long *at, unsigned long long first, unsigned long long second) {
  __atomic_store_n(at, static_cast<long long>(first), __ATOMIC_RELAXED);
  __atomic_store_n(at + 1, static_cast<long long>(second), __ATOMIC_RELAXED);
}
TC_FN void tc_read_words(const long long *at, unsigned long long &first,
                         unsigned long long &second) {
  first = static_cast<unsigned long long>(__atomic_load_n(at, __ATOMIC_RELAXED));
  second = static_cast<unsigned long long>(__atomic_load_n(at + 1, __ATOMIC_RELAXED));
}
TC_FN void tc_let_others_run() { sched_yield(); }
#endif

/// `counter`, zero before the first launch, counts the blocks of all launches, which are of one
/// size. One thread of each block takes a number, once, and knows the launch's: from 1 on.
TC_FN unsigned long long tc_count_block(long long *counter) {
  return atomicAdd(reinterpret_cast<unsigned long long *>(counter), 1ull);
}
TC_FN unsigned tc_launch_of(unsigned long long block) {
  return static_cast<unsigned>(block / gridDim.x) + 1u;
}

template <class T> union tc_told_value {
  unsigned long long bits;
  T value;
};
template <class T> TC_FN void tc_tell(long long *at, T value, unsigned launch) {
  static_assert(sizeof(T) <= sizeof(unsigned long long), "a value in two halves");
  tc_told_value<T> told = {0};
  told.value = value;
  const unsigned long long number = static_cast<unsigned long long>(launch) << 32;
  tc_write_words(at, number | (told.bits & 0xffffffffull), number | told.bits >> 32);
}
/// Waits until it is told.
template <class T> TC_FN T tc_listen(const long long *at, unsigned launch) {
  unsigned long long first, second;
  tc_read_words(at, first, second);
  while (first >> 32 != launch || second >> 32 != launch) {
    tc_let_others_run();
    tc_read_words(at, first, second);
  }
  const tc_told_value<T> told = {(first & 0xffffffffull) | second << 32};
  return told.value;
}

/// Whether combining once more costs more than a register for each run.
template <class Op> constexpr bool tc_is_costly = false;
template <> constexpr bool tc_is_costly<tc_logsumexp> = true;

/// In shared memory, of one scan.
template <class T, int Warps> struct tc_look_back {
  T before[Warps]; // the sum of parts of the same group, then sums of groups before it
  unsigned launch; // written by thread 0 before the scan
};

/// tc_row_scan of one part of a row, which goes on where the part before it ends. All threads of
/// the block hold the part: two warps or more. Groups are of 32 parts; `told` has two words a part
/// and, behind those of all rows, two a group. Total is what parts add up to in.
template <class Op, class Total, int Threads, int Run, int Count, class T>
TC_FN void tc_part_scan(T (&x)[Count], T *scratch, tc_look_back<Total, Threads / 32> &look_back,
                        long long *told, long long rows, long long row, long long parts,
                        long long part) {
  constexpr int warps = Threads / 32;
  static_assert(warps > 1, "one warp listens to its group, the others to groups");
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  T base[Count / Run];
  [[maybe_unused]] bool sums = false;
  [[maybe_unused]] T largest = T();
  const T total = tc_scan_costly<Op, 32, Run>(x, base, sums, largest);
  if (lane == 31)
    scratch[warp] = total;
  if constexpr (!tc_is_costly<Op>) // `base` is no longer needed, and more blocks fit
    tc_add_to_runs<Op, Run>(x, base);
  TC_BARRIER();
  const long long groups = (parts + 31) / 32, group = part / 32;
  const int inside = static_cast<int>(part % 32);
  const unsigned launch = look_back.launch;
  Total before = Op::template identity<Total>();
  if (warp == 0) {
    long long *const of_group = told + 2 * (row * parts + group * 32);
    Total own = Op::template identity<Total>();
    TC_UNROLL
    for (int i = 0; i < warps; ++i)
      own = Op::apply(own, static_cast<Total>(scratch[i]));
    if (lane == 0)
      tc_tell(of_group + 2 * inside, own, launch);
    if (lane < inside)
      before = tc_listen<Total>(of_group + 2 * lane, launch);
    before = tc_lanes_reduce<Op, 32>(before);
    if (lane == 0 && inside == 31)
      tc_tell(told + 2 * (rows * parts + row * groups + group), Op::apply(before, own), launch);
  } else {
    const long long *const of_groups = told + 2 * (rows * parts + row * groups);
    for (long long i = threadIdx.x - 32; i < group; i += Threads - 32)
      before = Op::apply(before, tc_listen<Total>(of_groups + 2 * i, launch));
    before = tc_lanes_reduce<Op, 32>(before);
  }
  if (lane == 0)
    look_back.before[warp] = before;
  T start = Op::template identity<T>();
  for (int i = 0; i < warp; ++i)
    start = Op::apply(start, scratch[i]);
  TC_BARRIER();
  before = look_back.before[0];
  TC_UNROLL
  for (int i = 1; i < warps; ++i)
    before = Op::apply(look_back.before[i], before);
  start = Op::apply(static_cast<T>(before), start);
  if constexpr (tc_sums_exponentials<Op, T>) {
    if (sums) {
      tc_take_logarithms<Run>(x, base, start, largest);
      return;
    }
  }
  if constexpr (tc_is_costly<Op>) {
    TC_UNROLL
    for (int k = 0; k < Count / Run; ++k)
      base[k] = Op::apply(start, base[k]);
    tc_add_to_runs<Op, Run>(x, base);
  } else {
    TC_UNROLL
    for (int i = 0; i < Count; ++i)
      x[i] = Op::apply(start, x[i]);
  }
}
