// Host half of the kernel prelude: CUDA's execution model (blocks, threads, barriers, warps, shared
// memory) for kernel texts that a C++ compiler turns into host code. No standard header is
// included: kernels compile in milliseconds. Numbers, vectors and math are in tc_numeric.h,
// tc_math.h and tc_reduce.h.
//
// What a kernel text writes (the device half, tc_device.h, gives these names their CUDA meaning):
//
//   TC_KERNEL __launch_bounds__(256) void k(float *TC_RESTRICT out0, long long n) {...}
//
//   TC_EXPORT(k, flags)           after the kernel; flags: TC_HAS_BARRIERS or 0
//   TC_EXPORT(k, flags, Shared)   the same for a kernel that says TC_SMEM
//   TC_SMEM(Shared, shared)       in a kernel, at most once: `Shared &shared`, static shared memory
//   TC_DYN_SMEM(float, tile)      in a kernel: `float *tile`, dynamic shared memory
//   TC_FN                         before a device function
//   TC_MEMBER                     before a member function that is not static
//   TC_UNROLL                     before a loop with a constant trip count
//   TC_NO_UNROLL                  before a loop whose iterations are to come one after the other
//
// The part above TC_HOST_ABI_ONLY is the contract with what runs the kernels
// (engine/host_device.cpp and fibers.cpp include this file with that macro defined).
#pragma once

enum : unsigned {
  TC_HOST_ABI = 1,      // version of the structures below
  TC_HAS_BARRIERS = 1u, // flag of TC_EXPORT: uses __syncthreads or warp operations
};

struct TcDim3 {
  unsigned x, y, z;
};

struct TcThread;

/// Reads and writes the slots of a warp operation's lanes: slots[lane] is what that lane passed,
/// for lanes in `arrived`.
using TcDeliver = void (*)(void *const *slots, unsigned arrived);

/// What kernels call while they run. `line` is a line of the kernel's source, for error messages.
struct TcRuntime {
  /// Waits for all threads of the block that have not returned. Gives how many of them passed a
  /// nonzero predicate (bits 0..15) and how many there were (bits 16..31).
  unsigned (*barrier)(TcThread *self, int predicate, int line);
  /// Waits for the lanes of `mask` that have not returned; the last to arrive calls deliver once.
  void (*warp)(TcThread *self, unsigned mask, void *slot, TcDeliver deliver, int line);
  /// Stops the launch with an error. Does not return.
  void (*fail)(TcThread *self, const char *what, int line);
};

/// One thread of a block as its kernel sees it.
struct TcThread {
  TcDim3 thread, block, block_size, grid_size;
  unsigned shared_bytes; // static, as exported
  int reversed;          // barrier-free kernels: threads of a block run in descending order
  void *static_shared;   // 128-byte aligned, filled with 0xFF when a block starts
  void *dynamic_shared;  // likewise
  const TcRuntime *runtime;
};

/// What TC_EXPORT(k, ...) exports as `k_entry`.
struct TcKernelEntry {
  unsigned abi;   // TC_HOST_ABI
  unsigned flags; // TC_HAS_BARRIERS
  const char *name;
  /// arguments[i] points at the value of parameter i, as cuLaunchKernel takes them. With
  /// TC_HAS_BARRIERS runs the one thread `self`; else all threads of the block one after the other,
  /// `self->thread` being set here.
  void (*thunk)(void **arguments, TcThread *self);
  unsigned parameters;   // how many
  unsigned shared_bytes; // static
};

#ifndef TC_HOST_ABI_ONLY

#define TC_KERNEL static
#define TC_FN static inline __attribute__((unused))
#define TC_MEMBER inline
#define TC_RESTRICT __restrict__
#define __launch_bounds__(...)
#define TC_INF __builtin_inff()
#define TC_NAN __builtin_nanf("")
#ifdef __clang__
#define TC_UNROLL _Pragma("unroll")
#else
#define TC_UNROLL _Pragma("GCC unroll 32")
#endif
#define TC_NO_UNROLL

/// The running thread. One per translation unit: a kernel never calls into another unit, and every
/// call that lets other threads run puts it back. Not initial-exec: a process has room for few
/// libraries of that kind.
static __thread TcThread *tc_self __attribute__((unused)) = nullptr;

#define threadIdx (tc_self->thread)
#define blockIdx (tc_self->block)
#define blockDim (tc_self->block_size)
#define gridDim (tc_self->grid_size)
#define warpSize 32

#define TC_SMEM(struct_type, name)                                                                 \
  if (tc_self->shared_bytes < sizeof(struct_type))                                                 \
    tc_self->runtime->fail(tc_self, "TC_SMEM of a type larger than the one TC_EXPORT names",       \
                           __LINE__);                                                              \
  struct_type &name = *static_cast<struct_type *>(tc_self->static_shared)
#define TC_DYN_SMEM(T, name) T *name = static_cast<T *>(tc_self->dynamic_shared)

// Block-wide barriers.

TC_FN unsigned tc_barrier(int predicate, int line) {
  TcThread *self = tc_self;
  unsigned counts = self->runtime->barrier(self, predicate, line);
  tc_self = self;
  return counts;
}
TC_FN void __syncthreads(int line = __builtin_LINE()) { tc_barrier(0, line); }
TC_FN int __syncthreads_count(int predicate, int line = __builtin_LINE()) {
  return static_cast<int>(tc_barrier(predicate, line) & 0xffffu);
}
TC_FN int __syncthreads_or(int predicate, int line = __builtin_LINE()) {
  return (tc_barrier(predicate, line) & 0xffffu) != 0;
}
TC_FN int __syncthreads_and(int predicate, int line = __builtin_LINE()) {
  unsigned counts = tc_barrier(predicate, line);
  return (counts & 0xffffu) == counts >> 16;
}
#define TC_BARRIER() __syncthreads()

// Warp operations. Each lane publishes a slot on its stack and waits; the last lane to arrive fills
// in the results of all of them, so an operation costs one switch a thread whatever it computes.

TC_FN unsigned tc_lane() {
  const TcThread *self = tc_self;
  const TcDim3 &thread = self->thread, &size = self->block_size;
  return (thread.x + size.x * (thread.y + size.y * thread.z)) & 31u;
}
TC_FN void tc_warp(unsigned mask, void *slot, TcDeliver deliver, int line) {
  TcThread *self = tc_self;
  self->runtime->warp(self, mask, slot, deliver, line);
  tc_self = self;
}

template <class T> struct TcShuffle {
  T value, result;
  unsigned source; // lane
  static void deliver(void *const *slots, unsigned arrived) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (!(arrived >> lane & 1u))
        continue;
      TcShuffle &slot = *static_cast<TcShuffle *>(slots[lane]);
      if (arrived >> slot.source & 1u)
        slot.result = static_cast<TcShuffle *>(slots[slot.source])->value;
      else // undefined on a GPU: a NaN for every float type
        __builtin_memset(static_cast<void *>(&slot.result), 0xff, sizeof(T));
    }
  }
};
template <class T> TC_FN T tc_shuffle_from(unsigned mask, T value, unsigned source, int line) {
  TcShuffle<T> slot = {value, value, source & 31u};
  tc_warp(mask, &slot, &TcShuffle<T>::deliver, line);
  return slot.result;
}
template <class T>
TC_FN T __shfl_sync(unsigned mask, T value, int lane, int width = 32, int line = __builtin_LINE()) {
  unsigned segment = static_cast<unsigned>(width) - 1u;
  return tc_shuffle_from(mask, value,
                         (tc_lane() & ~segment) | (static_cast<unsigned>(lane) & segment), line);
}
template <class T>
TC_FN T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                       int line = __builtin_LINE()) {
  unsigned lane = tc_lane(), within = lane & (static_cast<unsigned>(width) - 1u);
  return tc_shuffle_from(mask, value, within < delta ? lane : lane - delta, line);
}
template <class T>
TC_FN T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                         int line = __builtin_LINE()) {
  unsigned lane = tc_lane(), within = lane & (static_cast<unsigned>(width) - 1u);
  return tc_shuffle_from(mask, value,
                         within + delta < static_cast<unsigned>(width) ? lane + delta : lane, line);
}
template <class T>
TC_FN T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32,
                        int line = __builtin_LINE()) {
  unsigned lane = tc_lane(), source = lane ^ static_cast<unsigned>(lane_mask);
  unsigned last =
      lane | (static_cast<unsigned>(width) - 1u); // of the segment; earlier segments may be read
  return tc_shuffle_from(mask, value, source <= last ? source : lane, line);
}
/// Exchanges of a full warp.
template <class T> TC_FN T tc_shfl_xor(T value, int lane_mask, int line = __builtin_LINE()) {
  return __shfl_xor_sync(0xffffffffu, value, lane_mask, 32, line);
}
template <class T> TC_FN T tc_shfl_up(T value, unsigned delta, int line = __builtin_LINE()) {
  return __shfl_up_sync(0xffffffffu, value, delta, 32, line);
}
template <class T> TC_FN T tc_shfl_down(T value, unsigned delta, int line = __builtin_LINE()) {
  return __shfl_down_sync(0xffffffffu, value, delta, 32, line);
}

/// What a lane gets from value = combine(value, tc_shfl_xor(value, d)) for d = width/2 .. 1, bit
/// for bit, at the price of one exchange (host only; on the device write the loop). All 32 lanes
/// take part; width is a power of two.
template <class T, class Combine> struct TcButterfly {
  T value;
  const Combine *combine;
  unsigned width;
  static void deliver(void *const *slots, unsigned arrived) {
    T now[32], next[32];
    const TcButterfly *any = nullptr;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (arrived >> lane & 1u) {
        any = static_cast<const TcButterfly *>(slots[lane]);
        now[lane] = any->value;
      } else {
        __builtin_memset(static_cast<void *>(&now[lane]), 0xff, sizeof(T));
      }
    }
    for (unsigned distance = any->width / 2; distance > 0; distance /= 2) {
      for (unsigned lane = 0; lane < 32; ++lane)
        next[lane] = (*any->combine)(now[lane], now[lane ^ distance]);
      for (unsigned lane = 0; lane < 32; ++lane)
        now[lane] = next[lane];
    }
    for (unsigned lane = 0; lane < 32; ++lane)
      if (arrived >> lane & 1u)
        static_cast<TcButterfly *>(slots[lane])->value = now[lane];
  }
};
template <class T, class Combine>
TC_FN T tc_warp_butterfly(T value, const Combine &combine, int width = 32,
                          int line = __builtin_LINE()) {
  TcButterfly<T, Combine> slot = {value, &combine, static_cast<unsigned>(width)};
  tc_warp(0xffffffffu, &slot, &TcButterfly<T, Combine>::deliver, line);
  return slot.value;
}

struct TcVote {
  unsigned predicate, ballot, arrived;
  static void deliver(void *const *slots, unsigned arrived) {
    unsigned ballot = 0;
    for (unsigned lane = 0; lane < 32; ++lane)
      if (arrived >> lane & 1u && static_cast<TcVote *>(slots[lane])->predicate)
        ballot |= 1u << lane;
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (arrived >> lane & 1u) {
        static_cast<TcVote *>(slots[lane])->ballot = ballot;
        static_cast<TcVote *>(slots[lane])->arrived = arrived;
      }
    }
  }
};
TC_FN TcVote tc_vote(unsigned mask, int predicate, int line) {
  TcVote slot = {predicate != 0, 0, 0};
  tc_warp(mask, &slot, &TcVote::deliver, line);
  return slot;
}
TC_FN unsigned __ballot_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return tc_vote(mask, predicate, line).ballot;
}
TC_FN int __any_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  return tc_vote(mask, predicate, line).ballot != 0;
}
TC_FN int __all_sync(unsigned mask, int predicate, int line = __builtin_LINE()) {
  TcVote vote = tc_vote(mask, predicate, line);
  return vote.ballot == vote.arrived;
}
TC_FN void __syncwarp(unsigned mask = 0xffffffffu, int line = __builtin_LINE()) {
  tc_vote(mask, 0, line);
}

struct TcMatch {
  int value;
  unsigned same;
  static void deliver(void *const *slots, unsigned arrived) {
    for (unsigned lane = 0; lane < 32; ++lane) {
      if (!(arrived >> lane & 1u))
        continue;
      TcMatch &slot = *static_cast<TcMatch *>(slots[lane]);
      for (unsigned other = 0; other < 32; ++other)
        if (arrived >> other & 1u && static_cast<TcMatch *>(slots[other])->value == slot.value)
          slot.same |= 1u << other;
    }
  }
};
/// The lanes of a full warp that pass the same value (host only; on the device, ballots of its
/// bits).
TC_FN unsigned tc_match(int value, int line = __builtin_LINE()) {
  TcMatch slot = {value, 0};
  tc_warp(0xffffffffu, &slot, &TcMatch::deliver, line);
  return slot.same;
}

// Memory order and atomics: blocks run on several cores, so they are real.

TC_FN void __threadfence() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
TC_FN void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
TC_FN void __trap(int line = __builtin_LINE()) { tc_self->runtime->fail(tc_self, "__trap", line); }

/// Replaces *address by change(*address), whatever T's 4 or 8 bytes are; gives the old value.
template <class Bits, class T, class Change>
TC_FN T tc_atomic_change(T *address, const Change &change) {
  static_assert(sizeof(Bits) == sizeof(T), "an atomic type has 4 or 8 bytes");
  Bits old = __atomic_load_n(reinterpret_cast<Bits *>(address), __ATOMIC_RELAXED);
  for (;;) {
    T value;
    __builtin_memcpy(&value, &old, sizeof(T));
    T changed = change(value);
    Bits desired;
    __builtin_memcpy(&desired, &changed, sizeof(T));
    if (__atomic_compare_exchange_n(reinterpret_cast<Bits *>(address), &old, desired, false,
                                    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
      return value;
  }
}
#define TC_ATOMIC_INTEGER(T)                                                                       \
  TC_FN T atomicAdd(T *address, T value) {                                                         \
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);                                   \
  }                                                                                                \
  TC_FN T atomicExch(T *address, T value) {                                                        \
    return __atomic_exchange_n(address, value, __ATOMIC_RELAXED);                                  \
  }                                                                                                \
  TC_FN T atomicCAS(T *address, T expected, T value) {                                             \
    __atomic_compare_exchange_n(address, &expected, value, false, __ATOMIC_RELAXED,                \
                                __ATOMIC_RELAXED);                                                 \
    return expected;                                                                               \
  }                                                                                                \
  TC_FN T atomicMax(T *address, T value) {                                                         \
    return tc_atomic_change<T>(address, [value](T old) { return old < value ? value : old; });     \
  }                                                                                                \
  TC_FN T atomicMin(T *address, T value) {                                                         \
    return tc_atomic_change<T>(address, [value](T old) { return value < old ? value : old; });     \
  }
TC_ATOMIC_INTEGER(int)
TC_ATOMIC_INTEGER(unsigned)
TC_ATOMIC_INTEGER(long long)
TC_ATOMIC_INTEGER(unsigned long long)
#undef TC_ATOMIC_INTEGER
TC_FN float atomicAdd(float *address, float value) {
  return tc_atomic_change<unsigned>(address, [value](float old) { return old + value; });
}
TC_FN double atomicAdd(double *address, double value) {
  return tc_atomic_change<unsigned long long>(address, [value](double old) { return old + value; });
}

// Entries. The thunk is built from the kernel's signature.

template <class T, T... I> struct TcSequence {};
#ifdef __clang__
template <unsigned N> using TcIndices = __make_integer_seq<TcSequence, unsigned, N>;
#else
template <unsigned N> using TcIndices = TcSequence<unsigned, __integer_pack(N)...>;
#endif

template <auto Kernel, unsigned Flags, class Signature = decltype(Kernel)> struct TcThunk;
template <auto Kernel, unsigned Flags, class... Parameters>
struct TcThunk<Kernel, Flags, void (*)(Parameters...)> {
  static constexpr unsigned kParameters = sizeof...(Parameters);
  template <unsigned... I>
  static void call([[maybe_unused]] void **arguments, TcSequence<unsigned, I...>) {
    Kernel(*static_cast<Parameters *>(arguments[I])...);
  }
  static void run(void **arguments, TcThread *self) {
    tc_self = self;
    if constexpr ((Flags & TC_HAS_BARRIERS) != 0) {
      call(arguments, TcIndices<kParameters>());
    } else {
      const TcDim3 size = self->block_size;
      const unsigned count = size.x * size.y * size.z;
      for (unsigned i = 0; i < count; ++i) {
        unsigned linear = self->reversed ? count - 1 - i : i;
        self->thread = {linear % size.x, linear / size.x % size.y, linear / (size.x * size.y)};
        call(arguments, TcIndices<kParameters>());
      }
    }
  }
};
/// TC_EXPORT(kernel, flags[, type of TC_SMEM]).
#define TC_EXPORT(kernel, ...) TC_EXPORT_(kernel, __VA_ARGS__, )
#define TC_EXPORT_(kernel, flags, ...)                                                             \
  extern "C" {                                                                                     \
  extern __attribute__((visibility("default"))) const TcKernelEntry kernel##_entry;                \
  const TcKernelEntry kernel##_entry = {TC_HOST_ABI,                                               \
                                        flags,                                                     \
                                        #kernel,                                                   \
                                        &TcThunk<&kernel, flags>::run,                             \
                                        TcThunk<&kernel, flags>::kParameters,                      \
                                        TC_SHARED_BYTES(__VA_ARGS__)};                             \
  }
// __VA_ARGS__ is "" or "Type,": TC_EXPORT adds the comma that -Wpedantic wants in C++17.
#define TC_SHARED_BYTES(...) TC_SHARED_BYTES_(__VA_ARGS__, )
#define TC_SHARED_BYTES_(type, ...) sizeof(TcSharedType<type>) - 1u

/// One byte longer than T, so that no type at all counts 0.
template <class... T> struct TcSharedType;
template <> struct TcSharedType<> { char one; };
template <class T> struct TcSharedType<T> { char bytes[sizeof(T) + 1]; };

#endif // TC_HOST_ABI_ONLY
