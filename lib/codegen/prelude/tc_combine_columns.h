// Scans of tuples along columns, whose neighbours are neighbours in memory, in parts that go on
// where the part before ended (tc_look_back.h says how that is told).
#pragma once

/// A block has one part of Columns columns: thread t the elements lane * Count .. of column t %
/// Columns, lane = t / Columns, of Threads lanes. `scratch` has a slot a thread. `told` has two
/// words a part and column: what the column adds up to until that part's end. `launch`, in shared
/// memory, is thread 0's to write before. Elements behind the column's end may be anything.
template <class Combine, int Columns, int Threads, int Count>
TC_FN void tc_column_combine(typename Combine::value (&x)[Count], typename Combine::value *scratch,
                             const unsigned &launch, long long *told, long long apart,
                             long long columns, long long column, long long part) {
  using V = typename Combine::value;
  const int thread = static_cast<int>(threadIdx.x);
  TC_UNROLL
  for (int i = 1; i < Count; ++i)
    x[i] = Combine::apply(x[i - 1], x[i]);
  scratch[thread] = x[Count - 1];
  TC_BARRIER();
  if (thread < Columns) {
    V own = scratch[thread];
    TC_UNROLL
    for (int i = 1; i < Threads; ++i)
      own = Combine::apply(own, scratch[thread + i * Columns]);
    tc_running<Combine> before = {part > 0, V{}};
    if (part > 0) {
      tc_listen_to_members listen = {told + 2 * ((part - 1) * columns + column), apart, launch};
      before.value = Combine::each(listen, before.value);
    }
    tc_tell_members tell = {told + 2 * (part * columns + column), apart, launch};
    Combine::each(tell, tc_next(before, own).value);
    TC_UNROLL
    for (int i = 0; i < Threads; ++i) { // what comes before each lane
      const V lane = scratch[thread + i * Columns];
      scratch[thread + i * Columns] = before.value;
      before = tc_next(before, lane);
    }
  }
  TC_BARRIER();
  const tc_running<Combine> before = {part > 0 || thread >= Columns, scratch[thread]};
  TC_UNROLL
  for (int i = 0; i < Count; ++i)
    x[i] = tc_next(before, x[i]).value;
}
