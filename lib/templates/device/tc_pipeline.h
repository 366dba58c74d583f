// What groups of warps with different work say to each other: barriers in shared memory that count
// arrivals (mbarrier), named barriers of some of a block's threads, and registers that one group
// gives and another takes. One group brings what the others multiply. Addresses are of shared
// memory in bytes; a barrier takes 8, at a multiple of 8. Named barriers are everywhere, the rest
// is sm_90a alone. Source of each rule: the PTX ISA, the section of the instruction that is named.
#pragma once

#include "tc_tensor_core.h"

/// What bulk copies are told of a tensor: an argument that the driver's cuTensorMapEncodeTiled
/// made. TC_TENSOR_MAP before a kernel's parameter that is one.
#ifdef TC_DEVICE
struct alignas(64) tc_tensor_map {
  unsigned char bytes[128];
};
#define TC_TENSOR_MAP const __grid_constant__ tc_tensor_map
#else
struct tc_tensor_map {
  unsigned char bytes[128];
};
#define TC_TENSOR_MAP const tc_tensor_map
#endif

/// Before a kernel's name: so many blocks, neighbours of the grid, are a cluster (sm_90a alone).
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TC_CLUSTER(blocks) __cluster_dims__(blocks, 1, 1)
#else
#define TC_CLUSTER(blocks)
#endif

#ifdef TC_DEVICE
/// Named barrier `id` (1 to 15; 0 is __syncthreads) of `threads` threads, whole warps: waits for
/// all of them, or arrives and goes on.
TC_FN void tc_group_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
TC_FN void tc_group_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
/// As tc_group_sync; whether `vote` is true of any thread.
TC_FN bool tc_group_any(int id, int threads, bool vote) {
  int any;
  asm volatile("{\n.reg .pred vote, any;\nsetp.ne.b32 vote, %3, 0;\n"
               "bar.red.or.pred any, %1, %2, vote;\n"
               "selp.b32 %0, 1, 0, any;\n}\n"
               : "=r"(any)
               : "r"(id), "r"(threads), "r"(vote ? 1 : 0)
               : "memory");
  return any != 0;
}
#endif

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

/// By one thread, before others meet the barrier; then tc_barrier_fence_init and __syncthreads. A
/// phase ends with its `arrivals`-th arrival; the first phase is 0, and they alternate.
TC_FN void tc_barrier_init(unsigned address, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
}
TC_FN void tc_barrier_fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
/// What this thread has done is seen by whom the phase's end lets go on.
TC_FN void tc_barrier_arrive(unsigned address) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address) : "memory");
}
/// This thread's arrival, one of those that tc_barrier_init counts, once the copies that it has
/// started (tc_async_copy) are done; it goes on at once. Who waits and then multiplies by wgmma
/// calls tc_wgmma_see_shared in between.
TC_FN void tc_barrier_arrive_after_copies(unsigned address) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(address) : "memory");
}
/// This thread's arrival, and the phase does not end before bulk copies have brought `bytes` more.
/// By the thread that starts them, before it does. wgmma sees what they bring without a fence.
TC_FN void tc_barrier_expect(unsigned address, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address), "r"(bytes)
               : "memory");
}
/// The box of a matrix that starts at element `x` of line `y` comes to shared memory at `to`, a
/// multiple of 1024, and counts for `barrier`.
TC_FN void tc_bulk_copy(unsigned to, const tc_tensor_map *map, int x, int y, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3}], [%4];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(barrier)
               : "memory");
}
/// The same of matrix `z`.
TC_FN void tc_bulk_copy(unsigned to, const tc_tensor_map *map, int x, int y, int z,
                        unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier)
               : "memory");
}
/// The same of line `y` of matrix (z, w).
TC_FN void tc_bulk_copy(unsigned to, const tc_tensor_map *map, int x, int y, int z, int w,
                        unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(w), "r"(barrier)
               : "memory");
}
/// The box of a sample: channels from `channel` on, positions from `at` on, innermost dimension
/// first.
TC_FN void tc_bulk_copy_box(unsigned to, const tc_tensor_map *map, int channel, const int (&at)[3],
                            int sample, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
               "[%0], [%1, {%2, %3, %4, %5, %6}], [%7];" ::"r"(to),
               "l"(map), "r"(channel), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(sample), "r"(barrier)
               : "memory");
}
/// The same for all blocks of a cluster whose bits are in `blocks`: to the same place in the shared
/// memory of each, and for the barrier at the same place there.
TC_FN void tc_bulk_copy_to(unsigned short blocks, unsigned to, const tc_tensor_map *map, int x,
                           int y, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(blocks)
               : "memory");
}
TC_FN void tc_bulk_copy_to(unsigned short blocks, unsigned to, const tc_tensor_map *map, int x,
                           int y, int z, unsigned barrier) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
               ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
               "l"(map), "r"(x), "r"(y), "r"(z), "r"(barrier), "h"(blocks)
               : "memory");
}
/// One tap of windows over 1, 2 or 3 dimensions (im2col): channels from `channel` on of positions
/// from base `at` on, innermost dimension first, each moved by `tap`.
template <int Rank>
TC_FN void tc_bulk_copy_tap(unsigned to, const tc_tensor_map *map, int channel,
                            const int (&at)[Rank], int batch, const int (&tap)[Rank],
                            unsigned barrier) {
  if constexpr (Rank == 1)
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::"
                 "bytes [%0], [%1, {%2, %3, %4}], [%5], {%6};" ::"r"(to),
                 "l"(map), "r"(channel), "r"(at[0]), "r"(batch), "r"(barrier),
                 "h"(static_cast<unsigned short>(tap[0]))
                 : "memory");
  else if constexpr (Rank == 2)
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::"
                 "bytes [%0], [%1, {%2, %3, %4, %5}], [%6], {%7, %8};" ::"r"(to),
                 "l"(map), "r"(channel), "r"(at[0]), "r"(at[1]), "r"(batch), "r"(barrier),
                 "h"(static_cast<unsigned short>(tap[0])), "h"(static_cast<unsigned short>(tap[1]))
                 : "memory");
  else
    asm volatile("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::"
                 "bytes [%0], [%1, {%2, %3, %4, %5, %6}], [%7], {%8, %9, %10};" ::"r"(to),
                 "l"(map), "r"(channel), "r"(at[0]), "r"(at[1]), "r"(at[2]), "r"(batch),
                 "r"(barrier), "h"(static_cast<unsigned short>(tap[0])),
                 "h"(static_cast<unsigned short>(tap[1])), "h"(static_cast<unsigned short>(tap[2]))
                 : "memory");
}
/// `bytes` from memory to shared memory, a multiple of 16 as both addresses are.
TC_FN void tc_bulk_copy_bytes(unsigned to, const void *from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, "
               "[%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}
/// Adds floats that lie in shared memory to those in memory, in the background; `bytes` and both
/// addresses are multiples of 16. What threads have stored is added behind tc_bulk_see_stores, by
/// each of them, and a barrier. The additions of a thread since the last tc_bulk_end_group are a
/// group.
TC_FN void tc_bulk_add(float *to, unsigned from, unsigned bytes) {
  asm volatile(
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
      "r"(from), "r"(bytes)
      : "memory");
}
TC_FN void tc_bulk_see_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
TC_FN void tc_bulk_end_group() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
/// Until shared memory has been read by all groups of this thread.
TC_FN void tc_bulk_wait_read() { asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory"); }
/// Until all groups of this thread are done.
TC_FN void tc_bulk_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }
TC_FN void tc_bulk_prepare(const tc_tensor_map *map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}
/// Whether the phase of this parity has ended; of parity 1, also before the first one.
TC_FN bool tc_barrier_try(unsigned address, unsigned parity) {
  unsigned ended;
  asm volatile("{\n.reg .pred ended;\n"
               "mbarrier.try_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
               "selp.b32 %0, 1, 0, ended;\n}\n"
               : "=r"(ended)
               : "r"(address), "r"(parity)
               : "memory");
  return ended != 0;
}
/// The same at once: it does not wait at all.
TC_FN bool tc_barrier_test(unsigned address, unsigned parity) {
  unsigned ended;
  asm volatile("{\n.reg .pred ended;\nmbarrier.test_wait.parity.shared::cta.b64 ended, [%1], %2;\n"
               "selp.b32 %0, 1, 0, ended;\n}\n"
               : "=r"(ended)
               : "r"(address), "r"(parity)
               : "memory");
  return ended != 0;
}
TC_FN void tc_barrier_wait(unsigned address, unsigned parity) {
  while (!tc_barrier_try(address, parity)) {
  }
}

/// Blocks of a cluster: which one this is; where another one's shared memory has what this block
/// has at `address`; four floats to there, and
/// from there. What was stored is seen by threads that have waited for
/// all that are left of the cluster to arrive.
TC_FN unsigned tc_cluster_rank() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}
TC_FN unsigned tc_cluster_address(unsigned address, unsigned rank) {
  unsigned there;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
  return there;
}
TC_FN void tc_cluster_store(unsigned to, float a, float b, float c, float d) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(a), "f"(b),
               "f"(c), "f"(d)
               : "memory");
}
TC_FN float4 tc_cluster_load(unsigned from) {
  float4 to;
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(to.x), "=f"(to.y), "=f"(to.z), "=f"(to.w)
               : "r"(from)
               : "memory");
  return to;
}
/// An arrival at a barrier of another block of the cluster, or of this one.
/// Releases nothing to other blocks but that shared memory was read (what does fences memory).
TC_FN void tc_cluster_barrier_arrive(unsigned address, unsigned rank) {
  asm volatile(
      "mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(tc_cluster_address(address, rank))
      : "memory");
}
TC_FN void tc_cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
/// The same of a block that has read what others have, and stored nothing for them.
TC_FN void tc_cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}
TC_FN void tc_cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// Registers a thread from here on, a multiple of 8, by all warps of a group of four. Who gives
/// does so at once, who takes waits for them.
template <int Count> TC_FN void tc_registers_give() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Count));
}
template <int Count> TC_FN void tc_registers_take() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Count));
}

/// A place in a ring of `Count` stages, and the parity of the round.
template <int Count> struct tc_ring {
  int stage = 0;
  unsigned parity = 0;
  TC_MEMBER void next() {
    if (++stage == Count) {
      stage = 0;
      parity ^= 1;
    }
  }
  /// As many stages as others take.
  TC_MEMBER void skip(int stages) {
    const int to = stage + stages;
    stage = to % Count;
    parity ^= static_cast<unsigned>(to / Count) & 1;
  }
};

#endif
