// Numbers: what memory holds and what is computed with, vectors of up to 16 bytes an access.
#pragma once

#include "tc_floats.h"

/// What an element of memory is as a value, and back: narrow floats are floats, all else is itself.
template <class T> struct tc_storage {
  using value = T;
  TC_FN T load(T x) { return x; }
  TC_FN T store(T x) { return x; }
};
template <> struct tc_storage<tc_f16> {
  using value = float;
  TC_FN float load(tc_f16 x) { return tc_float(x); }
  TC_FN tc_f16 store(float x) { return tc_to_f16(x); }
};
template <> struct tc_storage<tc_bf16> {
  using value = float;
  TC_FN float load(tc_bf16 x) { return tc_float(x); }
  TC_FN tc_bf16 store(float x) { return tc_to_bf16(x); }
};
template <int M, int B, unsigned L, unsigned O, unsigned N>
struct tc_storage<tc_f8<M, B, L, O, N>> {
  using value = float;
  TC_FN float load(tc_f8<M, B, L, O, N> x) { return tc_float(x); }
  TC_FN tc_f8<M, B, L, O, N> store(float x) { return tc_f8<M, B, L, O, N>::nearest(x); }
};
template <> struct tc_storage<tc_f8e8m0fnu> {
  using value = float;
  TC_FN float load(tc_f8e8m0fnu x) { return tc_float(x); }
  TC_FN tc_f8e8m0fnu store(float x) { return tc_f8e8m0fnu::nearest(x); }
};

/// The neighbour of `x` towards `y` among the elements of the narrow type; both are such elements.
template <class Narrow> TC_FN float tc_nextafter(float x, float y) {
  if (x != x || y != y)
    return x + y;
  if (x == y)
    return y;
  Narrow next = tc_storage<Narrow>::store(x);
  if (x == 0.0f)
    next.bits = static_cast<unsigned short>(y < 0.0f ? 0x8001 : 1);
  else if ((x < y) == (x > 0.0f)) // grows in magnitude, so in the bits below the sign
    next.bits = static_cast<unsigned short>(next.bits + 1);
  else
    next.bits = static_cast<unsigned short>(next.bits - 1);
  return tc_float(next);
}
/// A 16-bit float that was loaded long before it is needed, in a register of its own: two that the
/// compiler puts into one register are waited for there.
template <class T> struct tc_apart { unsigned bits; };
template <class T> TC_FN tc_apart<T> tc_keep_apart(T x) { return {x.bits}; }
template <class T> struct tc_storage<tc_apart<T>> {
  using value = float;
  TC_FN float load(tc_apart<T> x) {
    return tc_storage<T>::load(T{static_cast<unsigned short>(x.bits)});
  }
};
/// Memory holds bools as bytes 0 and 1.
template <class T> using tc_value = typename tc_storage<T>::value;
template <class T> TC_FN tc_value<T> tc_get(T x) { return tc_storage<T>::load(x); }
template <class T> TC_FN tc_value<T> tc_load(const T *p) { return tc_storage<T>::load(*p); }
/// What tc_load loads, where `where` holds; elsewhere zero, and nothing is read. What is converted
/// needs no condition: a GPU holds seven of them, and a load whose conversion waited for it under
/// one would keep the loads behind it waiting.
template <class T> TC_FN tc_value<T> tc_load_where(bool where, const T *p) {
  T stored{};
  if (where)
    stored = *p;
  return tc_storage<T>::load(stored);
}
template <class T> TC_FN void tc_store(T *p, tc_value<T> x) { *p = tc_storage<T>::store(x); }

/// n / divisor of a place in a row or a grid: a product where the launch gave an inverse (2^62 //
/// divisor + 1, exact for both below 2^31), a division where it is 0. The division of 64 bits takes
/// ten times as long.
TC_FN long long tc_quotient(long long n, long long divisor, long long inverse) {
  if (inverse == 0)
    return n / divisor;
  const auto place = static_cast<unsigned long long>(static_cast<unsigned>(n)),
             by = static_cast<unsigned long long>(inverse);
  return static_cast<long long>((((by & 0xffffffffull) * place >> 32) + (by >> 32) * place) >> 30);
}

/// Toward zero; NaN and what does not fit become the lowest integer, or on a GPU the nearest one,
/// as processors have it.
template <class Whole, class From> TC_FN Whole tc_truncate(From x) {
#ifdef TC_DEVICE
  return static_cast<Whole>(x);
#else
  // Hidden from the compiler: it would fold a cast of a constant that does not fit as it likes, and
  // (g++ with -fno-trapping-math) make trunc() of a cast there and back, which keeps NaN, what does
  // not fit, and the sign of -0.3.
  if (__builtin_constant_p(x)) {
    volatile From hidden = x;
    x = hidden;
  }
  Whole result = static_cast<Whole>(x);
  asm("" : "+r"(result));
  return result;
#endif
}

/// What a float becomes on its way to the integer To: signed ones of 32 bits and less are cut from
/// an int, all others from 64 bits, so that -1.0 becomes 255 as a byte.
template <class To> struct tc_whole { using type = long long; };
template <> struct tc_whole<int> { using type = int; };
#ifdef TC_DEVICE
template <> struct tc_whole<short> { using type = short; };
template <> struct tc_whole<signed char> { using type = signed char; };
#else
template <> struct tc_whole<short> { using type = int; };
template <> struct tc_whole<signed char> { using type = int; };
#endif

/// Casts as torch's .to(): toward zero for ints; bool is "not zero".
template <class To> struct tc_caster {
  template <class From> TC_FN To apply(From x) { return static_cast<To>(x); }
  using Whole = typename tc_whole<To>::type;
  TC_FN To apply(float x) { return static_cast<To>(tc_truncate<Whole>(x)); }
  TC_FN To apply(double x) { return static_cast<To>(tc_truncate<Whole>(x)); }
};
template <> struct tc_caster<float> {
  template <class From> TC_FN float apply(From x) { return static_cast<float>(x); }
};
template <> struct tc_caster<double> {
  template <class From> TC_FN double apply(From x) { return static_cast<double>(x); }
};
template <> struct tc_caster<bool> {
  template <class From> TC_FN bool apply(From x) { return x != From(0); }
};
template <class To, class From> TC_FN To tc_to(From x) { return tc_caster<To>::apply(x); }

/// Of a run of that many bytes, those of the accesses that it is made of: the most that divide it,
/// 16 at most.
template <int Bytes> struct tc_access {
  static constexpr int bytes = Bytes % 16 == 0  ? 16
                               : Bytes % 8 == 0 ? 8
                               : Bytes % 4 == 0 ? 4
                               : Bytes % 2 == 0 ? 2
                                                : 1;
};
/// V neighbouring elements; loads and stores of it are aligned to its accesses.
template <class T, int V> struct alignas(tc_access<int(sizeof(T) * V)>::bytes) tc_vec { T at[V]; };
struct alignas(16) tc_bytes16 {
  unsigned x, y, z, w;
};
struct alignas(8) tc_bytes8 {
  unsigned x, y;
};
template <int Bytes> struct tc_chunk {
  using type = typename tc_chunk<tc_access<Bytes>::bytes>::type;
};
template <> struct tc_chunk<16> { using type = tc_bytes16; };
template <> struct tc_chunk<8> { using type = tc_bytes8; };
template <> struct tc_chunk<4> { using type = unsigned; };
template <> struct tc_chunk<2> { using type = unsigned short; };
template <> struct tc_chunk<1> { using type = unsigned char; };
/// Where a run's accesses lie. A device faults where that is no multiple of their size, a host does
/// not: tests have it end there, too.
template <class Chunk, class T> TC_FN Chunk *tc_chunks_at(T *p) {
#ifdef TC_VERIFY
  if (reinterpret_cast<unsigned long long>(p) % sizeof(Chunk) != 0)
    __builtin_trap();
#endif
  return reinterpret_cast<Chunk *>(p);
}

#ifdef TC_DEVICE
/// 16 bytes that are read once: they leave the caches first.
TC_FN tc_bytes16 tc_fetch_stream(const tc_bytes16 *p) {
  const uint4 v = __ldcs(reinterpret_cast<const uint4 *>(p));
  return {v.x, v.y, v.z, v.w};
}
/// 16 bytes that are read again soon: they leave the cache that all blocks share last.
TC_FN tc_bytes16 tc_fetch_keep(const tc_bytes16 *p) {
  tc_bytes16 v;
  unsigned long long policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("ld.global.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], %5;"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(p)), "l"(policy));
  return v;
}
/// 16 bytes that the kernel does not write: the load may come before stores that precede it.
TC_FN tc_bytes16 tc_fetch_constant(const tc_bytes16 *p) {
  const uint4 v = __ldg(reinterpret_cast<const uint4 *>(p));
  return {v.x, v.y, v.z, v.w};
}
/// 16 bytes that nothing but what is made of them is stored over: the load may come before stores
/// to other places that precede it.
TC_FN tc_bytes16 tc_fetch_ahead(const tc_bytes16 *p) {
  tc_bytes16 v;
  asm("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
      : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
      : "l"(__cvta_generic_to_global(p)));
  return v;
}
/// One load, though a part of it may be all that is used.
TC_FN tc_bytes16 tc_fetch_whole(const tc_bytes16 *p) {
  tc_bytes16 v;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
  return v;
}
TC_FN tc_bytes8 tc_fetch_whole(const tc_bytes8 *p) {
  tc_bytes8 v;
  asm volatile("ld.global.v2.u32 {%0, %1}, [%2];"
               : "=r"(v.x), "=r"(v.y)
               : "l"(__cvta_generic_to_global(p))
               : "memory");
  return v;
}
TC_FN void tc_put_stream(tc_bytes16 *p, tc_bytes16 v) {
  __stcs(reinterpret_cast<uint4 *>(p), make_uint4(v.x, v.y, v.z, v.w));
}
/// One store: in a branch, the compiler makes four of an assignment.
TC_FN void tc_put(tc_bytes16 *p, tc_bytes16 v) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}
TC_FN void tc_put(tc_bytes8 *p, tc_bytes8 v) {
  asm volatile("st.global.v2.u32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "r"(v.x),
               "r"(v.y)
               : "memory");
}
#else
TC_FN tc_bytes16 tc_fetch_constant(const tc_bytes16 *p) { return *p; }
TC_FN tc_bytes16 tc_fetch_ahead(const tc_bytes16 *p) { return *p; }
TC_FN tc_bytes16 tc_fetch_stream(const tc_bytes16 *p) { return *p; }
TC_FN tc_bytes16 tc_fetch_keep(const tc_bytes16 *p) { return *p; }
TC_FN void tc_put_stream(tc_bytes16 *p, tc_bytes16 v) { *p = v; }
#endif
template <class C> TC_FN C tc_fetch_whole(const C *p) { return *p; }
template <class C> TC_FN C tc_fetch_stream(const C *p) { return *p; }
template <class C> TC_FN C tc_fetch_keep(const C *p) { return *p; }
template <class C> TC_FN C tc_fetch_constant(const C *p) { return *p; }
template <class C> TC_FN C tc_fetch_ahead(const C *p) { return *p; }
template <class C> TC_FN void tc_put_stream(C *p, C v) { *p = v; }
template <class C> TC_FN void tc_put(C *p, C v) { *p = v; }

/// Loads V elements at p, aligned to their size (16 bytes at most).
template <int V, class T> TC_FN tc_vec<T, V> tc_load_vec(const T *p) {
  using chunk = typename tc_chunk<int(sizeof(T) * V)>::type;
  constexpr int count = sizeof(T) * V / sizeof(chunk);
  union {
    chunk chunks[count];
    tc_vec<T, V> vector;
  } u;
  TC_UNROLL
  for (int i = 0; i < count; ++i)
    u.chunks[i] = tc_chunks_at<const chunk>(p)[i];
  return u.vector;
}
/// The same in whole chunks, where the compiler would load what it sees used.
template <int V, class T> TC_FN tc_vec<T, V> tc_whole_vec(const T *p) {
  using chunk = typename tc_chunk<int(sizeof(T) * V)>::type;
  constexpr int count = sizeof(T) * V / sizeof(chunk);
  union {
    chunk chunks[count];
    tc_vec<T, V> vector;
  } u;
  TC_UNROLL
  for (int i = 0; i < count; ++i)
    u.chunks[i] = tc_fetch_whole(tc_chunks_at<const chunk>(p) + i);
  return u.vector;
}
/// V elements from element Shift of those at `low` on, the last ones from `high`: both places are
/// aligned as above.
template <int V, int Shift, class T>
TC_FN tc_vec<T, V> tc_load_shifted(const T *low, const T *high) {
  const tc_vec<T, V> first = tc_whole_vec<V>(low), second = tc_whole_vec<V>(high);
  tc_vec<T, V> vector;
  TC_UNROLL
  for (int i = 0; i < V; ++i)
    vector.at[i] = i + Shift < V ? first.at[(i + Shift) % V] : second.at[(i + Shift) % V];
  return vector;
}
/// V elements of 1, 2 or 4 bytes, 8 bytes at least, from element `at` of an array on, p pointing at
/// it, wherever that lies: whole aligned pieces are read, and put together; at the array's ends,
/// single elements. Elements outside of [0, end) are zeros.
template <int V, class T, class At, class End>
TC_FN tc_vec<T, V> tc_load_anywhere(const T *p, At at, End end) {
  constexpr int size = sizeof(T), bytes = size * V, count = bytes / 4;
  union {
    tc_vec<T, V> vector;
    unsigned words[count];
  } u;
#ifdef TC_DEVICE
  constexpr int width = bytes < 16 ? bytes : 16, pieces = bytes / width, all = count + width / 4;
  using chunk = typename tc_chunk<width>::type;
  const int offset = static_cast<int>(reinterpret_cast<unsigned long long>(p) & (width - 1));
  const int before = offset / size, last = offset == 0 ? 0 : 1;
  if (at >= before && at - before + (pieces + last) * (width / size) <= end) {
    union {
      chunk chunks[pieces + 1];
      unsigned words[all];
    } read;
    const chunk *from =
        reinterpret_cast<const chunk *>(reinterpret_cast<const unsigned char *>(p) - offset);
    TC_UNROLL
    for (int i = 0; i < pieces; ++i)
      read.chunks[i] = from[i];
    read.chunks[pieces] = from[pieces - 1 + last];
    TC_UNROLL
    for (int step = width / 8; step > 0; step /= 2) {
      const unsigned moved = offset & step * 4 ? 0xffffffffu : 0u; // one instruction a word
      TC_UNROLL
      for (int i = 0; i + step < all; ++i)
        read.words[i] ^= (read.words[i] ^ read.words[i + step]) & moved;
    }
    TC_UNROLL
    for (int i = 0; i < count; ++i)
      u.words[i] = size == 4 ? read.words[i]
                             : __funnelshift_r(read.words[i], read.words[i + 1],
                                               static_cast<unsigned>(offset) % 4 * 8);
  } else { // words move by an element, which comes last: in an array they would leave registers
    TC_UNROLL
    for (int i = 0; i < count; ++i)
      u.words[i] = 0;
    TC_NO_UNROLL
    for (int i = 0; i < V; ++i) {
      const bool inside = at + i >= 0 && at + i < end;
      const unsigned x =
          inside ? reinterpret_cast<const typename tc_chunk<size>::type *>(p)[i] : 0u;
      TC_UNROLL
      for (int w = 0; w + 1 < count; ++w)
        u.words[w] =
            size == 4 ? u.words[w + 1] : __funnelshift_r(u.words[w], u.words[w + 1], size * 8);
      u.words[count - 1] =
          size == 4 ? x : u.words[count - 1] >> size * 8 % 32 | x << (32 - size * 8);
    }
  }
#else
  for (int i = 0; i < V; ++i)
    u.vector.at[i] = at + i >= 0 && at + i < end ? p[i] : T{};
#endif
  return u.vector;
}
/// What tc_load_vec loads, where `where` holds; elsewhere zeros, and nothing is read.
template <int V, class T> TC_FN tc_vec<T, V> tc_load_vec_where(bool where, const T *p) {
  using chunk = typename tc_chunk<int(sizeof(T) * V)>::type;
  constexpr int count = sizeof(T) * V / sizeof(chunk);
  union {
    chunk chunks[count];
    tc_vec<T, V> vector;
  } u;
  TC_UNROLL
  for (int i = 0; i < count; ++i)
    u.chunks[i] = where ? tc_chunks_at<const chunk>(p)[i] : chunk{};
  return u.vector;
}
/// The same for data that the kernel does not write.
template <int V, class T> TC_FN tc_vec<T, V> tc_constant_vec(const T *p) {
  using chunk = typename tc_chunk<int(sizeof(T) * V)>::type;
  constexpr int count = sizeof(T) * V / sizeof(chunk);
  union {
    chunk chunks[count];
    tc_vec<T, V> vector;
  } u;
  TC_UNROLL
  for (int i = 0; i < count; ++i)
    u.chunks[i] = tc_fetch_constant(tc_chunks_at<const chunk>(p) + i);
  return u.vector;
}
/// The same for data that the kernel stores over once it has read it.
template <int V, class T> TC_FN tc_vec<T, V> tc_ahead_vec(const T *p) {
  using chunk = typename tc_chunk<int(sizeof(T) * V)>::type;
  constexpr int count = sizeof(T) * V / sizeof(chunk);
  union {
    chunk chunks[count];
    tc_vec<T, V> vector;
  } u;
  TC_UNROLL
  for (int i = 0; i < count; ++i)
    u.chunks[i] = tc_fetch_ahead(tc_chunks_at<const chunk>(p) + i);
  return u.vector;
}
/// The same for data that nothing reads again.
template <int V, class T> TC_FN tc_vec<T, V> tc_stream_vec(const T *p) {
  using chunk = typename tc_chunk<int(sizeof(T) * V)>::type;
  constexpr int count = sizeof(T) * V / sizeof(chunk);
  union {
    chunk chunks[count];
    tc_vec<T, V> vector;
  } u;
  TC_UNROLL
  for (int i = 0; i < count; ++i)
    u.chunks[i] = tc_fetch_stream(tc_chunks_at<const chunk>(p) + i);
  return u.vector;
}

/// The same for data that the same block reads again.
template <int V, class T> TC_FN tc_vec<T, V> tc_keep_vec(const T *p) {
  using chunk = typename tc_chunk<int(sizeof(T) * V)>::type;
  constexpr int count = sizeof(T) * V / sizeof(chunk);
  union {
    chunk chunks[count];
    tc_vec<T, V> vector;
  } u;
  TC_UNROLL
  for (int i = 0; i < count; ++i)
    u.chunks[i] = tc_fetch_keep(tc_chunks_at<const chunk>(p) + i);
  return u.vector;
}

/// Whether `at` is in [0, count), count >= 0.
TC_FN bool tc_is_inside(int at, int count) {
  return static_cast<unsigned>(at) < static_cast<unsigned>(count);
}
template <class Count> TC_FN bool tc_is_inside(long long at, Count count) {
  return static_cast<unsigned long long>(at) < static_cast<unsigned long long>(count);
}
/// The three loads for a run of which `left` elements are there: nothing behind them is read, and
/// what would lie there is zero. p is aligned as above.
#define TC_VEC_INSIDE(name)                                                                        \
  template <int V, class T, class Index>                                                           \
  TC_FN tc_vec<T, V> name##_inside(const T *p, Index left) {                                       \
    if (left >= V)                                                                                 \
      return name<V>(p);                                                                           \
    tc_vec<T, V> vector;                                                                           \
    TC_UNROLL                                                                                      \
    for (int i = 0; i < V; ++i)                                                                    \
      vector.at[i] = i < left ? p[i] : T{};                                                        \
    return vector;                                                                                 \
  }
TC_VEC_INSIDE(tc_load_vec)
TC_VEC_INSIDE(tc_stream_vec)
TC_VEC_INSIDE(tc_keep_vec)
#undef TC_VEC_INSIDE

template <class T, int V> struct tc_packer {
  TC_FN tc_vec<T, V> apply(const tc_value<T> (&x)[V]) {
    tc_vec<T, V> y;
    TC_UNROLL
    for (int i = 0; i < V; ++i)
      y.at[i] = tc_storage<T>::store(x[i]);
    return y;
  }
};
template <class T, int V>
struct tc_half_packer { // pairs: one conversion instruction for two elements
  TC_FN tc_vec<T, V> apply(const float (&x)[V]) {
    union {
      unsigned pairs[V / 2];
      tc_vec<T, V> vector;
    } u;
    TC_UNROLL
    for (int i = 0; i < V / 2; ++i)
      u.pairs[i] = tc_pack(T{}, x[2 * i], x[2 * i + 1]);
    return u.vector;
  }
};
template <class T> struct tc_half_packer<T, 1> {
  TC_FN tc_vec<T, 1> apply(const float (&x)[1]) { return {{tc_storage<T>::store(x[0])}}; }
};
#ifdef TC_CONVERTS_F8
template <class T, int V, bool = (T::is_native && V % 2 == 0)> struct tc_f8_packer {
  TC_FN tc_vec<T, V> apply(const float (&x)[V]) {
    tc_vec<T, V> y;
    TC_UNROLL
    for (int i = 0; i < V; ++i)
      y.at[i] = T::nearest(x[i]);
    return y;
  }
};
template <class T, int V> struct tc_f8_packer<T, V, true> {
  TC_FN tc_vec<T, V> apply(const float (&x)[V]) {
    union {
      unsigned short pairs[V / 2];
      tc_vec<T, V> vector;
    } u;
    float largest = 0.0f;
    TC_UNROLL
    for (int i = 0; i < V; i += 2) {
      u.pairs[i / 2] = T::saturated_two(x[i], x[i + 1]);
      largest = T::larger(largest, T::larger(x[i], x[i + 1]));
    }
    if (!(largest < T::beyond))
      TC_UNROLL
    for (int i = 0; i < V; ++i)
      u.vector.at[i] = T::with_beyond(x[i], u.vector.at[i]);
    return u.vector;
  }
};
template <int M, int B, unsigned L, unsigned O, unsigned N, int V>
struct tc_packer<tc_f8<M, B, L, O, N>, V> : tc_f8_packer<tc_f8<M, B, L, O, N>, V> {};
#endif
template <int V> struct tc_packer<tc_f16, V> : tc_half_packer<tc_f16, V> {};
template <int V> struct tc_packer<tc_bf16, V> : tc_half_packer<tc_bf16, V> {};

/// Rounds V values to T and stores them at p in global memory, aligned to their size (16 bytes at
/// most). V is even.
template <int V, class T> TC_FN void tc_store_vec(T *p, const tc_value<T> (&x)[V]) {
  using chunk = typename tc_chunk<int(sizeof(T) * V)>::type;
  constexpr int count = sizeof(T) * V / sizeof(chunk);
  union {
    chunk chunks[count];
    tc_vec<T, V> vector;
  } u;
  u.vector = tc_packer<T, V>::apply(x);
  TC_UNROLL
  for (int i = 0; i < count; ++i)
    tc_put(tc_chunks_at<chunk>(p) + i, u.chunks[i]);
}

/// The same of a run that starts at element `at` of `count`, before the first one maybe: what lies
/// outside is not stored. `whole`: nothing does.
template <int V, class T, class Index, class Count>
TC_FN void tc_store_vec_inside(T *p, Index at, Count count, const tc_value<T> (&x)[V],
                               bool whole = false) {
  if (whole || (at >= 0 && at + V <= count)) {
    tc_store_vec<V>(p, x);
    return;
  }
  TC_UNROLL
  for (int i = 0; i < V; ++i)
    if (tc_is_inside(at + i, count))
      tc_store(p + i, x[i]);
}

/// A size that places are divided by. Places in what has no elements are divided by its sizes and
/// not used: a processor would not divide by 0.
template <class T> TC_FN T tc_divisor(T size) {
#ifdef TC_DEVICE
  return size;
#else
  return size == 0 ? 1 : size;
#endif
}
/// Floor division and the remainder in [0, b), b > 0; of 0, as above, 0.
template <class T> TC_FN T tc_floor_div(T a, T b) {
#ifndef TC_DEVICE
  if (b == 0)
    return 0;
#endif
  const T q = a / b;
  return a % b < 0 ? q - 1 : q;
}
template <class T> TC_FN T tc_mod(T a, T b) {
#ifndef TC_DEVICE
  if (b == 0)
    return 0;
#endif
  const T r = a % b;
  return r < 0 ? r + b : r;
}
template <class A, class B> TC_FN long long tc_floor_div(A a, B b) {
  return tc_floor_div<long long>(static_cast<long long>(a), static_cast<long long>(b));
}
template <class A, class B> TC_FN long long tc_mod(A a, B b) {
  return tc_mod<long long>(static_cast<long long>(a), static_cast<long long>(b));
}
/// The remainder of a place in [-size, 2 * size).
template <class A, class B> TC_FN auto tc_wrap(A place, B size) {
  const decltype(place + size) x = place;
  return x < 0 ? x + size : x >= size ? x - size : x;
}
/// A run-time index is in [low, extent); `low` is -extent where negative ones count from the end,
/// else 0.
template <class T> TC_FN bool tc_is_index(T index, long long low, long long extent) {
  const long long i = static_cast<long long>(index);
  return i >= low && i < extent;
}
/// Notes that `value` is not what check `number` holds it to, if none has been noted: {the graph's
/// own word, number, value, extent}.
TC_FN void tc_note_failure(long long *failure, long long number, long long value,
                           long long extent) {
  if (atomicCAS(reinterpret_cast<unsigned long long *>(failure + 1), 0ull,
                static_cast<unsigned long long>(number)) == 0ull) {
    failure[2] = value;
    failure[3] = extent;
  }
}
/// Where such an index points; 0 if it points nowhere. `bad` is what did last where it was `used`.
template <class T>
TC_FN long long tc_find_index(T index, long long low, long long extent, long long &bad,
                              bool used = true) {
  const long long i = static_cast<long long>(index);
  const bool valid = tc_is_index(i, low, extent);
  bad = used && !valid ? i : bad;
  return !valid ? 0 : i < 0 ? i + extent : i;
}
/// The same, noted at once.
template <class T>
TC_FN long long tc_check_index(T index, long long low, long long extent, long long *failure,
                               long long number, bool used = true) {
  const long long i = static_cast<long long>(index);
  if (used && !tc_is_index(i, low, extent))
    tc_note_failure(failure, number, i, extent);
  long long bad = 0;
  return tc_find_index(i, low, extent, bad, false);
}
