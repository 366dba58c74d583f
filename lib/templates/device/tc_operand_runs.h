// Operands of products that are computed as they are read: runs of neighbours, which the compiler
// writes out (codegen/operand_text.h) as a type with
//   run                           elements of a run
//   words                         16 bytes that a run has in memory: how many
//   places(place.., n, at)        where they are, of run n of the row at `place`
//   narrow ahead(place.., n)      what else memory holds of it
//   values(words, narrow, place.., n, values)    the run, f32; on the host
//   factors(words, narrow, place.., n, factors)  the run in pairs of 16-bit floats; on a device
// and what such types are written with: conversions of what memory holds packed, and arithmetic of
// pairs.
#pragma once

#include "tc_numeric.h"

/// Integers of few bits as floats: put where a float's digits below 2^23 are, two instructions of
/// which a multiprocessor does many, where it converts one.
TC_FN float tc_small_float(int x) {
#ifdef TC_DEVICE
  return __uint_as_float(0x4b000000u | static_cast<unsigned>(x)) - 8388608.0f;
#else
  return static_cast<float>(x);
#endif
}
/// Element I of a run.
template <int I, class T, int N> TC_FN float tc_float_of(const tc_vec<T, N> &run) {
  return tc_get(run.at[I]);
}
#ifdef TC_DEVICE
/// Of bytes as above; `turned`: bits that make the least one 0.
template <int I, class T, int N>
TC_FN float tc_byte_of(const tc_vec<T, N> &run, unsigned turned, float least) {
  union {
    tc_vec<T, N> bytes;
    unsigned words[N / 4];
  } u;
  u.bytes = run;
  return __uint_as_float(__byte_perm(u.words[I / 4] ^ turned, 0x4b000000u, 0x7440u | I % 4)) -
         (8388608.0f - least);
}
template <int I, int N> TC_FN float tc_float_of(const tc_vec<unsigned char, N> &run) {
  return tc_byte_of<I>(run, 0u, 0.0f);
}
template <int I, int N> TC_FN float tc_float_of(const tc_vec<signed char, N> &run) {
  return tc_byte_of<I>(run, 0x80808080u, -128.0f);
}
#endif
/// The same of 8-bit floats, two at once where the GPU converts them: as f16, which holds all.
#if defined(TC_DEVICE) && __CUDA_ARCH__ >= 890
#define TC_OPERAND_FLOAT8(type, name)                                                              \
  template <int I, int N> TC_FN unsigned tc_float8_pair(tc_f16, const tc_vec<type, N> &run) {      \
    union {                                                                                        \
      tc_vec<type, N> bytes;                                                                       \
      unsigned short pairs[N / 2];                                                                 \
    } u;                                                                                           \
    u.bytes = run;                                                                                 \
    unsigned halves;                                                                               \
    asm("cvt.rn.f16x2." name "x2 %0, %1;" : "=r"(halves) : "h"(u.pairs[I / 2]));                   \
    return halves;                                                                                 \
  }                                                                                                \
  template <int I, int N> TC_FN float tc_float_of(const tc_vec<type, N> &run) {                    \
    const unsigned halves = tc_float8_pair<I / 2 * 2>(tc_f16{}, run);                              \
    return tc_float(tc_f16{static_cast<unsigned short>(I % 2 == 0 ? halves : halves >> 16)});      \
  }
TC_OPERAND_FLOAT8(tc_f8e4m3fn, "e4m3")
TC_OPERAND_FLOAT8(tc_f8e5m2, "e5m2")
#undef TC_OPERAND_FLOAT8
#elif defined(TC_DEVICE)
template <int I, class E, int N> TC_FN unsigned tc_float8_pair(tc_f16, const tc_vec<E, N> &run) {
  return tc_pack(tc_f16{}, tc_get(run.at[I]), tc_get(run.at[I + 1]));
}
#endif

#ifdef TC_DEVICE
/// Two 16-bit floats at once, each operation rounded as PyTorch rounds it.
TC_FN unsigned tc_pair_fma(tc_bf16, unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
TC_FN unsigned tc_pair_fma(tc_f16, unsigned a, unsigned b, unsigned c) {
  unsigned result;
  asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
}
TC_FN unsigned tc_pair_one(tc_bf16) { return 0x3f803f80u; }
TC_FN unsigned tc_pair_one(tc_f16) { return 0x3c003c00u; }
constexpr unsigned tc_pair_signs = 0x80008000u; // -0, twice
template <class T> TC_FN unsigned tc_pair_add(T, unsigned a, unsigned b) {
  return tc_pair_fma(T{}, a, tc_pair_one(T{}), b);
}
template <class T> TC_FN unsigned tc_pair_sub(T, unsigned a, unsigned b) {
  return tc_pair_fma(T{}, b, tc_pair_one(T{}) ^ tc_pair_signs, a);
}
template <class T> TC_FN unsigned tc_pair_mul(T, unsigned a, unsigned b) {
  return tc_pair_fma(T{}, a, b, tc_pair_signs);
}
/// Integers below 128 (1024): digits of a number of which one is the last digit's unit.
TC_FN unsigned tc_pair_units(tc_bf16) { return 0x43004300u; }
TC_FN unsigned tc_pair_units(tc_f16) { return 0x64006400u; }
TC_FN constexpr int tc_pair_unit(tc_bf16) { return 128; }
TC_FN constexpr int tc_pair_unit(tc_f16) { return 1024; }
/// The bits of a negative integer that has no more digits than the type.
TC_FN constexpr unsigned tc_negative_bits(int x, int digits, int bias) {
  int exponent = 0;
  while (-x >> exponent > 1)
    ++exponent;
  return 0x8000u | static_cast<unsigned>((bias + exponent) << digits) |
         (static_cast<unsigned>(-x) << (digits - exponent) & ((1u << digits) - 1));
}
TC_FN constexpr unsigned tc_pair_integer(tc_bf16, int x) { return tc_negative_bits(x, 7, 127); }
TC_FN constexpr unsigned tc_pair_integer(tc_f16, int x) { return tc_negative_bits(x, 10, 15); }
/// Two numbers less their units, and `More` more, an integer of few bits: all of it is exact.
template <int More = 0, class T> TC_FN unsigned tc_pair_digits(T, unsigned digits) {
  constexpr unsigned more = tc_pair_integer(T{}, More - tc_pair_unit(T{}));
  return tc_pair_fma(T{}, digits, tc_pair_one(T{}), more | more << 16);
}
template <class T> TC_FN unsigned tc_small_pair(T, unsigned a, unsigned b) {
  return tc_pair_digits(T{}, a | b << 16 | tc_pair_units(T{}));
}
/// The four bytes from element 4 x I bytes on.
template <int I, class T, int N> TC_FN unsigned tc_word_of(const tc_vec<T, N> &run) {
  union {
    tc_vec<T, N> elements;
    unsigned words[N * static_cast<int>(sizeof(T)) / 4];
  } u;
  u.elements = run;
  return u.words[I];
}
/// Bytes P and Q of one word, which a half float's digits hold.
template <int P, int Q, int N>
TC_FN unsigned tc_byte_pair(tc_f16, const tc_vec<unsigned char, N> &run) {
  return tc_pair_digits(
      tc_f16{}, __byte_perm(tc_word_of<P / 4>(run), 0x64646464u, 0x4040u | P % 4 | Q % 4 << 8));
}
template <int P, int Q, int N>
TC_FN unsigned tc_byte_pair(tc_f16, const tc_vec<signed char, N> &run) { // 128 more, and less
  return tc_pair_fma(
      tc_f16{},
      __byte_perm(tc_word_of<P / 4>(run) ^ 0x80808080u, 0x64646464u, 0x4040u | P % 4 | Q % 4 << 8),
      tc_pair_one(tc_f16{}), 0xe480e480u);
}
/// Numbers of 4 bits, P and Q, of one word. A shift and a mask take two that are 16 bits apart:
/// eight neighbours are that four times, and put in order. `More` is added to each.
template <int P, int Q, int More = 0, class T, class E, int N>
TC_FN unsigned tc_nibble_pair(T, const tc_vec<E, N> &run) {
  const unsigned word = tc_word_of<P / 8>(run);
  const auto apart = [&](int i) { return (word >> i % 4 * 4 & 0x000f000fu) | tc_pair_units(T{}); };
  constexpr unsigned half = 0x10u, next = 0x22u;
  constexpr unsigned order = half + P % 8 / 4 * next + ((half + Q % 8 / 4 * next + 0x44u) << 8);
  constexpr bool ordered = Q == P + 4 && P % 8 < 4;
  return tc_pair_digits<More>(T{}, ordered ? apart(P) : __byte_perm(apart(P), apart(Q), order));
}
#endif

/// 16 bytes of memory as neighbours of a type.
struct alignas(16) tc_operand_word {
  unsigned at[4];
};
template <class T>
TC_FN tc_vec<T, 16 / static_cast<int>(sizeof(T))> tc_operand_as(tc_operand_word word) {
  union {
    tc_operand_word word;
    tc_vec<T, 16 / static_cast<int>(sizeof(T))> vector;
  } u;
  u.word = word;
  return u.vector;
}
