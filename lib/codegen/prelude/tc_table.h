// Parts of tensors that the elements of a block look up in, brought to shared memory: in memory,
// lanes whose elements lie anywhere ask for a line each.
#pragma once

/// Starts a copy of some bytes, 16 or 4 of them, or makes it.
TC_FN void tc_start_copy(tc_bytes16 *shared, const tc_bytes16 *memory) {
#if defined(TC_DEVICE) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(shared))),
               "l"(memory)
               : "memory");
#else
  *shared = *memory;
#endif
}
template <class T> TC_FN void tc_start_copy_of_one(T *shared, const T *memory) {
#if defined(TC_DEVICE) && __CUDA_ARCH__ >= 800
  if constexpr (sizeof(T) == 4 || sizeof(T) == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                     static_cast<unsigned>(__cvta_generic_to_shared(shared))),
                 "l"(memory), "n"(sizeof(T))
                 : "memory");
    return;
  }
#endif
  *shared = *memory;
}
/// Those that the thread has started until now are a group; waits for all groups but the last one,
/// or for all.
TC_FN void tc_close_copies() {
#if defined(TC_DEVICE) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
template <int Left> TC_FN void tc_wait_for_copies() {
#if defined(TC_DEVICE) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
#endif
}

/// Where elements from `memory` on stand in `shared`, which starts at a multiple of 16 bytes and
/// has 16 more than they take: as far from such a multiple as in memory.
template <class T> TC_FN T *tc_table_at(unsigned char *shared, const T *memory) {
  return reinterpret_cast<T *>(shared + (reinterpret_cast<unsigned long long>(memory) & 15u));
}
/// Starts to bring `count` of them there, thread `lane` of `threads` its share. Others see them
/// once it has waited, behind a barrier.
template <class T>
TC_FN void tc_bring_table(unsigned char *shared, const T *memory, int count, int lane,
                          int threads) {
  T *const table = tc_table_at(shared, memory);
  constexpr int run = static_cast<int>(16 / sizeof(T));
  const int past = static_cast<int>(table - reinterpret_cast<T *>(shared));
  int head = past == 0 ? 0 : run - past; // elements in front of the first multiple
  head = head < count ? head : count;
  const int runs = (count - head) / run, tail = head + runs * run;
  for (int i = lane; i < runs; i += threads)
    tc_start_copy(reinterpret_cast<tc_bytes16 *>(table + head) + i,
                  reinterpret_cast<const tc_bytes16 *>(memory + head) + i);
  if (lane < head)
    tc_start_copy_of_one(table + lane, memory + lane);
  if (lane < count - tail)
    tc_start_copy_of_one(table + tail + lane, memory + tail + lane);
}
