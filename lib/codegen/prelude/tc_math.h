// Elementwise operations, one per row of ir/opcodes.def, with PyTorch's meaning (NaN, signed zeros,
// integer division and shifts included). float and double; integers where the operation has a
// meaning for them. Device: CUDA's functions. Host: libm through builtins, so no header is needed.
#pragma once

// TC_LIBM(name): an operation that is exact or correctly rounded, for which compilers know
// instructions. TC_FUNCTION(name): any other. On the host those are libm's by names that compilers
// do not know: of cosh(atanh(x)) g++ makes 1 / sqrt((1 - x) * (1 + x)), and a value that is
// computed in two places has to be the same in both.
#ifdef TC_DEVICE
#define TC_LIBM(name) name
#define TC_FUNCTION(name) name
#define TC_DECLARE_1(name)
#define TC_DECLARE_2(name)
#else
#define TC_LIBM(name) __builtin_##name
#define TC_FUNCTION(name) tc_libm_##name
#define TC_DECLARE_1(name)                                                                         \
  extern "C" __attribute__((const, nothrow)) float tc_libm_##name##f(float) __asm__(#name "f");    \
  extern "C" __attribute__((const, nothrow)) double tc_libm_##name(double) __asm__(#name);
#define TC_DECLARE_2(name)                                                                         \
  extern "C"                                                                                       \
      __attribute__((const, nothrow)) float tc_libm_##name##f(float, float) __asm__(#name "f");    \
  extern "C" __attribute__((const, nothrow)) double tc_libm_##name(double, double) __asm__(#name);
#endif

#define TC_EXACT_1(name, function)                                                                 \
  TC_FN float tc_##name(float x) { return TC_LIBM(function##f)(x); }                               \
  TC_FN double tc_##name(double x) { return TC_LIBM(function)(x); }
#define TC_EXACT_2(name, function)                                                                 \
  TC_FN float tc_##name(float x, float y) { return TC_LIBM(function##f)(x, y); }                   \
  TC_FN double tc_##name(double x, double y) { return TC_LIBM(function)(x, y); }
#define TC_MATH_1(name)                                                                            \
  TC_DECLARE_1(name)                                                                               \
  TC_FN float tc_##name(float x) { return TC_FUNCTION(name##f)(x); }                               \
  TC_FN double tc_##name(double x) { return TC_FUNCTION(name)(x); }
#define TC_MATH_2(name)                                                                            \
  TC_DECLARE_2(name)                                                                               \
  TC_FN float tc_##name(float x, float y) { return TC_FUNCTION(name##f)(x, y); }                   \
  TC_FN double tc_##name(double x, double y) { return TC_FUNCTION(name)(x, y); }

TC_MATH_1(acos)
TC_MATH_1(acosh)
TC_MATH_1(asin)
TC_MATH_1(asinh)
TC_MATH_1(atan)
TC_MATH_1(atanh)
TC_MATH_1(cos)
TC_MATH_1(cosh)
TC_MATH_1(erfc)
TC_MATH_1(exp2)
TC_MATH_1(expm1)
TC_MATH_1(lgamma)
TC_MATH_1(log)
TC_MATH_1(log10)
TC_MATH_1(log1p)
TC_MATH_1(log2)
TC_MATH_1(sin)
TC_MATH_1(sinh)
TC_EXACT_1(sqrt, sqrt)
TC_MATH_1(tan)
TC_MATH_1(tanh)
TC_MATH_2(atan2)
TC_EXACT_2(copysign, copysign)
TC_MATH_2(hypot)
TC_EXACT_2(nextafter, nextafter)

/// The derivative of lgamma. Infinite at zeros, against their sign; NaN at negative integers.
template <class T> TC_FN T tc_digamma(T x) {
  constexpr T kPi = T(3.14159265358979323846);
  if (x == T(0))
    return T(-1) / x;
  T result = T(0);
  if (x < T(0)) { // by reflection
    const T fraction = x - TC_LIBM(trunc)(x);
    if (fraction == T(0))
      return fraction / fraction;
    result = -kPi / tc_tan(kPi * fraction);
    x = T(1) - x;
  }
  for (; x < T(10); x += T(1))
    result -= T(1) / x;
  // The asymptotic series; the sum is of B(2n) / (2n x^2n).
  const T z = T(1) / (x * x);
  T sum = T(1.0 / 12);
  sum = sum * z - T(691.0 / 32760);
  sum = sum * z + T(1.0 / 132);
  sum = sum * z - T(1.0 / 240);
  sum = sum * z + T(1.0 / 252);
  sum = sum * z - T(1.0 / 120);
  sum = sum * z + T(1.0 / 12);
  return result + tc_log(x) - T(0.5) / x - sum * z;
}

TC_FN float tc_fma(float x, float y, float z) { return TC_LIBM(fmaf)(x, y, z); }
TC_FN double tc_fma(double x, double y, double z) { return TC_LIBM(fma)(x, y, z); }

#ifdef TC_DEVICE
TC_FN float tc_exp(float x) { return expf(x); }
TC_FN float tc_rsqrt(float x) { return rsqrtf(x); }
TC_FN double tc_rsqrt(double x) { return rsqrt(x); }
TC_FN float tc_quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
/// 1 / (1 + y) for y >= 0, infinity included.
TC_FN float tc_reciprocal_1p(float y) { return __fdividef(1.0f, 1.0f + y); }
/// tanh(x), off by 3e-7 at most, which is much of a small result: 5 instructions, tanh takes 17.
TC_FN float tc_quick_tanh(float x) {
  return 1.0f - 2.0f * tc_reciprocal_1p(tc_quick_exp2(x * 2.88539008f)); // e to 2x
}
#else
TC_FN float tc_quick_tanh(float x) { return tc_tanh(x); }
/// exp by argument reduction and a polynomial: within 2 units in the last place, and a compiler
/// vectorizes it.
TC_FN float tc_exp(float x) {
  const float clamped = x > 89.0f ? 89.0f : x < -104.0f ? -104.0f : x;
  const float shifted =
      clamped * 1.44269504f + 12582912.0f; // 1.5 * 2^23: the sum's low bits are the integer
  const float k = shifted - 12582912.0f;
  float f = k * -0.693359375f + clamped;
  f = k * 2.12194440e-4f + f;
  float p = 1.9875691500e-4f;
  p = p * f + 1.3981999507e-3f;
  p = p * f + 8.3334519073e-3f;
  p = p * f + 4.1665795894e-2f;
  p = p * f + 1.6666665459e-1f;
  p = p * f + 5.0000001201e-1f;
  p = p * f * f + f + 1.0f;
  // 2^k in two factors, so that results near the ends of the range are right.
  const int whole = static_cast<int>(tc_float_bits(shifted) - 0x4b400000u), half = whole >> 1;
  const float low = tc_bits_float(static_cast<unsigned>(half + 127) << 23);
  const float high = tc_bits_float(static_cast<unsigned>(whole - half + 127) << 23);
  const float y = p * low * high;
  return x != x ? x : y;
}
TC_FN float tc_rsqrt(float x) { return 1.0f / __builtin_sqrtf(x); }
TC_FN double tc_rsqrt(double x) { return 1.0 / __builtin_sqrt(x); }
TC_FN float tc_quick_exp2(float x) { return tc_exp(x * 0.693147181f); }
TC_FN float tc_reciprocal_1p(float y) { return 1.0f / (1.0f + y); }
#endif
TC_DECLARE_1(exp)
TC_FN double tc_exp(double x) { return TC_FUNCTION(exp)(x); }

/// erf(x) = 1 - 2^(-|x| P(|x|)) with the sign of x; P is a fit of degree 7 to -log2(erfc(t)) / t on
/// [0, 4]. Largest absolute error 1.2e-7; no branch. Near 0, where that would be too much of the
/// result, the first terms of its series.
/// erf to 1.2e-7 everywhere, near 0 too: for what is added to 1.
TC_FN float tc_quick_erf(float x) {
  const float t = TC_LIBM(fabsf)(x);
  float p = 4.535859989e-05f;
  p = tc_fma(p, t, -4.455076996e-04f);
  p = tc_fma(p, t, 1.489441842e-03f);
  p = tc_fma(p, t, 7.746292395e-04f);
  p = tc_fma(p, t, -2.825368010e-02f);
  p = tc_fma(p, t, 1.484816074e-01f);
  p = tc_fma(p, t, 9.184163809e-01f);
  p = tc_fma(p, t, 1.627908587e+00f);
  return TC_LIBM(copysignf)(1.0f - tc_quick_exp2(-t * p), x);
}
TC_FN float tc_erf(float x) {
  const float square = x * x;
  float near = -2.686617064e-02f; // 2 / sqrt(pi) times -1/42, 1/10, -1/3, 1
  near = tc_fma(near, square, 1.128379167e-01f);
  near = tc_fma(near, square, -3.761263890e-01f);
  near = tc_fma(near, square, 1.128379167e+00f);
  return TC_LIBM(fabsf)(x) < 0.2f ? near * x : tc_quick_erf(x);
}
TC_DECLARE_1(erf)
TC_FN double tc_erf(double x) { return TC_FUNCTION(erf)(x); }

// Integers wrap, as PyTorch's do. Signed overflow is undefined in C++ and compilers count on that
// it never happens (x + 1 > x is true to them), so they are computed without a sign, which wraps.
template <int Bytes> struct tc_unsigned_of { using type = unsigned; };
template <> struct tc_unsigned_of<8> { using type = unsigned long long; };
template <class T> using tc_unsigned = typename tc_unsigned_of<static_cast<int>(sizeof(T))>::type;
template <class T> TC_FN T tc_add(T x, T y) {
  return static_cast<T>(static_cast<tc_unsigned<T>>(x) + static_cast<tc_unsigned<T>>(y));
}
template <class T> TC_FN T tc_sub(T x, T y) {
  return static_cast<T>(static_cast<tc_unsigned<T>>(x) - static_cast<tc_unsigned<T>>(y));
}
template <class T> TC_FN T tc_mul(T x, T y) {
  return static_cast<T>(static_cast<tc_unsigned<T>>(x) * static_cast<tc_unsigned<T>>(y));
}
TC_FN float tc_add(float x, float y) { return x + y; }
TC_FN float tc_sub(float x, float y) { return x - y; }
TC_FN float tc_mul(float x, float y) { return x * y; }
TC_FN double tc_add(double x, double y) { return x + y; }
TC_FN double tc_sub(double x, double y) { return x - y; }
TC_FN double tc_mul(double x, double y) { return x * y; }

// Rounded by themselves, no part of a fused step.
#ifdef TC_DEVICE
TC_FN float tc_plain_add(float x, float y) { return __fadd_rn(x, y); }
TC_FN float tc_plain_sub(float x, float y) { return __fsub_rn(x, y); }
TC_FN float tc_plain_mul(float x, float y) { return __fmul_rn(x, y); }
TC_FN double tc_plain_add(double x, double y) { return __dadd_rn(x, y); }
TC_FN double tc_plain_sub(double x, double y) { return __dsub_rn(x, y); }
TC_FN double tc_plain_mul(double x, double y) { return __dmul_rn(x, y); }
#else
template <class T> TC_FN T tc_plain_add(T x, T y) { return x + y; }
template <class T> TC_FN T tc_plain_sub(T x, T y) { return x - y; }
template <class T> TC_FN T tc_plain_mul(T x, T y) { return x * y; }
#endif
TC_FN bool tc_add(bool x, bool y) { return x || y; }
TC_FN bool tc_mul(bool x, bool y) { return x && y; }
template <class T> TC_FN T tc_neg(T x) { return tc_sub(T(0), x); }
#ifdef TC_DEVICE
/// As 32 bits: ptxas 13.0 takes the negative of -32768 for 32768 where it is compared.
TC_FN short tc_neg(short x) {
  short y;
  asm("{ .reg .s32 t; cvt.s32.s16 t, %1; neg.s32 t, t; cvt.u16.u32 %0, t; }" : "=h"(y) : "h"(x));
  return y;
}
#endif
TC_FN float tc_neg(float x) { return -x; }
TC_FN double tc_neg(double x) { return -x; }
template <class T> TC_FN T tc_square(T x) { return tc_mul(x, x); }
template <class T> TC_FN T tc_abs(T x) { return x < T(0) ? tc_neg(x) : x; }
TC_FN float tc_abs(float x) { return TC_LIBM(fabsf)(x); }
TC_FN double tc_abs(double x) { return TC_LIBM(fabs)(x); }
TC_FN bool tc_abs(bool x) { return x; }

/// Integers; floats have one rounding, above.
template <class T> TC_FN T tc_fma(T x, T y, T z) { return tc_add(tc_mul(x, y), z); }
template <class T> TC_FN T tc_reciprocal(T x) { return T(1) / x; }
template <class T> TC_FN T tc_truediv(T x, T y) { return x / y; }

#ifdef TC_DEVICE
/// 1 / x to two units in the last place: of a step that is itself a rounding away.
TC_FN float tc_near_inverse(float x) { return __fdividef(1.0f, x); }
#else
inline float tc_near_inverse(float x) { return 1.0f / x; }
#endif
TC_FN double tc_near_inverse(double x) { return 1.0 / x; }

/// x / d, given inverse = 1 / d: one correction of x * inverse rounds as a division does. Where an
/// infinity or a zero makes the correction NaN, x * inverse is the quotient. A d so small that its
/// inverse overflows is scaled before, and the quotient right within 3 units in the last place.
/// Without a branch, and what depends on d alone is had once for all x.
TC_FN float tc_divide(float x, float d, float inverse) {
  const bool tiny = TC_LIBM(fabsf)(inverse) == TC_INF;
  const float scale = tiny ? 16777216.0f : 1.0f; // 2^24
  const float of_scaled = tc_near_inverse(d * 16777216.0f), scaled = tiny ? of_scaled : inverse;
  const float q = x * scale * scaled;
  const float corrected = tc_fma(tc_fma(-d, q, x), scaled, q);
  return corrected == corrected ? TC_LIBM(copysignf)(corrected, q) : q; // -0.0 keeps its sign
}
/// The same without the correction: within 3 units in the last place.
TC_FN float tc_quick_divide(float x, float d, float inverse) {
  const bool tiny = TC_LIBM(fabsf)(inverse) == TC_INF;
  const float of_scaled = tc_near_inverse(d * 16777216.0f);
  return x * (tiny ? 16777216.0f : 1.0f) * (tiny ? of_scaled : inverse);
}

// Rounding: the identity for integers.
template <class T> TC_FN T tc_floor(T x) { return x; }
template <class T> TC_FN T tc_ceil(T x) { return x; }
template <class T> TC_FN T tc_trunc(T x) { return x; }
template <class T> TC_FN T tc_round(T x) { return x; }
TC_EXACT_1(floor, floor)
TC_EXACT_1(ceil, ceil)
TC_EXACT_1(trunc, trunc)
TC_EXACT_1(round, rint) // half to even

template <class T> TC_FN bool tc_isnan(T x) { return x != x; }
template <class T> TC_FN bool tc_isinf(T) { return false; }
TC_FN bool tc_isinf(float x) { return TC_LIBM(fabsf)(x) == TC_INF; }
TC_FN bool tc_isinf(double x) { return TC_LIBM(fabs)(x) == static_cast<double>(TC_INF); }
template <class T> TC_FN bool tc_signbit(T x) { return x < T(0); }
TC_FN bool tc_signbit(float x) { return tc_float_bits(x) >> 31 != 0; }
TC_FN bool tc_signbit(double x) { return TC_LIBM(copysign)(1.0, x) < 0.0; }

/// Ordered comparisons of floats, false where either is NaN. ptxas 13.0 forgets NaN where it knows
/// a range: setp.ge of |x|, or of x * x, and 0 is true to it. The opposite or unordered is not
/// folded.
#if defined(TC_DEVICE) && defined(__CUDA_ARCH__)
#define TC_ORDERED(name, opposite)                                                                 \
  TC_FN bool tc_##name(float x, float y) {                                                         \
    unsigned z;                                                                                    \
    asm("{ .reg .pred p; setp." opposite "u.f32 p, %1, %2; selp.u32 %0, 0, 1, p; }"                \
        : "=r"(z)                                                                                  \
        : "f"(x), "f"(y));                                                                         \
    return z != 0;                                                                                 \
  }                                                                                                \
  TC_FN bool tc_##name(double x, double y) {                                                       \
    unsigned z;                                                                                    \
    asm("{ .reg .pred p; setp." opposite "u.f64 p, %1, %2; selp.u32 %0, 0, 1, p; }"                \
        : "=r"(z)                                                                                  \
        : "d"(x), "d"(y));                                                                         \
    return z != 0;                                                                                 \
  }
TC_ORDERED(lt, "ge")
TC_ORDERED(le, "gt")
TC_ORDERED(gt, "le")
TC_ORDERED(ge, "lt")
#else
#define TC_ORDERED(name, op)                                                                       \
  TC_FN bool tc_##name(float x, float y) { return x op y; }                                        \
  TC_FN bool tc_##name(double x, double y) { return x op y; }
TC_ORDERED(lt, <)
TC_ORDERED(le, <=)
TC_ORDERED(gt, >)
TC_ORDERED(ge, >=)
#endif
#undef TC_ORDERED

/// NaN if either is.
template <class T> TC_FN T tc_maximum(T x, T y) { return x > y ? x : y; }
template <class T> TC_FN T tc_minimum(T x, T y) { return x < y ? x : y; }
#if defined(TC_DEVICE) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
TC_FN float tc_maximum(float x, float y) {
  float z;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
TC_FN float tc_minimum(float x, float y) {
  float z;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(z) : "f"(x), "f"(y));
  return z;
}
#else
TC_FN float tc_maximum(float x, float y) { return x > y || x != x ? x : y; }
TC_FN float tc_minimum(float x, float y) { return x < y || x != x ? x : y; }
#endif
#ifdef TC_DEVICE // of -0.0 and 0.0 the larger is 0.0, as of float
TC_FN double tc_maximum(double x, double y) { return x != x ? x : y != y ? y : fmax(x, y); }
TC_FN double tc_minimum(double x, double y) { return x != x ? x : y != y ? y : fmin(x, y); }
#else
TC_FN double tc_maximum(double x, double y) { return tc_gt(x, y) || x != x ? x : y; }
TC_FN double tc_minimum(double x, double y) { return tc_lt(x, y) || x != x ? x : y; }
#endif
/// Of -0.0 it is -0.0 on the host and 0.0 on a GPU, as PyTorch has it.
template <class T> TC_FN T tc_relu(T x) { return tc_maximum(T(0), x); }

template <class T> TC_FN T tc_sign(T x) { return static_cast<T>((x > T(0)) - (x < T(0))); }
/// 0 for NaN.
TC_FN float tc_sign(float x) { return static_cast<float>(tc_gt(x, 0.0f) - tc_lt(x, 0.0f)); }
TC_FN double tc_sign(double x) { return static_cast<double>(tc_gt(x, 0.0) - tc_lt(x, 0.0)); }

TC_FN float tc_sigmoid(float x) { return tc_reciprocal_1p(tc_exp(-x)); }
/// Off by |x| / 2^23 of the result, and 0 below -87: for what is rounded to 16 bits.
TC_FN float tc_quick_sigmoid(float x) { return tc_reciprocal_1p(tc_quick_exp2(x * -1.44269504f)); }
TC_FN double tc_sigmoid(double x) { return 1.0 / (1.0 + tc_exp(-x)); }

/// tanh(x), within 2^-17 of itself: for results of 16 bits, without a branch.
TC_FN float tc_near_tanh(float x) {
  const float square = x * x,
              near = x * tc_fma(square, tc_fma(square, 0.133333333f, -0.333333333f), 1.0f);
  return TC_LIBM(fabsf)(x) < 0.0625f ? near : tc_quick_tanh(x);
}
/// log(1 + x), within 2^-17 of itself: for results of 16 bits. With a quick exponential 27
/// instructions fewer an element.
#ifdef TC_DEVICE
TC_FN float tc_quick_log1p(float x) {
  const float near =
      x * tc_fma(x, tc_fma(x, tc_fma(x, -0.25f, 0.333333333f), -0.5f), 1.0f); // its series
  return TC_LIBM(fabsf)(x) < 0.03125f ? near : __log2f(1.0f + x) * 0.693147181f;
}
#else
TC_FN float tc_quick_log1p(float x) { return tc_log1p(x); }
#endif

// Division of integers. By 0 PyTorch raises on the CPU and leaves it open on a GPU: 0 here. By -1
// it is the negative, which wraps: dividing the smallest number by it traps on x86.
/// The one division that quotients and remainders of integers take; x itself by 0 and by -1.
template <class T> TC_FN T tc_whole_quotient(T x, T y) {
  const bool divides = y != T(0) && !(y == static_cast<T>(-1) && T(-1) < T(0));
  return static_cast<T>(x / (divides ? y : T(1)));
}
/// Toward zero.
template <class T> TC_FN T tc_truncdiv(T x, T y) {
  const T quotient = tc_whole_quotient(x, y);
  return y == T(0) ? T(0) : y == static_cast<T>(-1) && T(-1) < T(0) ? tc_neg(quotient) : quotient;
}
/// 1 + tanh(x), which is 2 / (1 + e to -2x): nearer to it where it is small than the sum is.
TC_FN float tc_tanh_plus_1(float x) {
  return 2.0f * tc_reciprocal_1p(tc_quick_exp2(x * -2.88539008f));
}
TC_FN float tc_truncdiv(float x, float y) { return TC_LIBM(truncf)(x / y); }
TC_FN double tc_truncdiv(double x, double y) { return TC_LIBM(trunc)(x / y); }
/// Whether x / y rounds to a number of so few digits that a fused step away from its integer is
/// exact: a remainder is x less a whole number of y then, where the library's goes digit by digit.
TC_FN bool tc_divides_closely(float ratio, float y) {
  return TC_LIBM(fabsf)(ratio) < 4194304.0f && TC_LIBM(fabsf)(y) < TC_INF;
}
/// Whether a quotient is no number, or of a finite x by an infinite y: nothing to go digit by digit
/// for, which a warp would wait for if one of its lanes did.
TC_FN bool tc_divides_no_number(float x, float y) {
  return !(TC_LIBM(fabsf)(x) < TC_INF) || !(TC_LIBM(fabsf)(y) <= TC_INF) || y == 0.0f;
}
TC_FN float tc_fmod(float x, float y) {
  const float ratio = x / y;
  if (!tc_divides_closely(ratio, y))
    return tc_divides_no_number(x, y)    ? TC_NAN
           : TC_LIBM(fabsf)(y) == TC_INF ? x
                                         : TC_LIBM(fmodf)(x, y);
  float rest = TC_LIBM(fmaf)(-TC_LIBM(truncf)(ratio), y, x);
  if (rest != 0.0f && (rest < 0.0f) != (x < 0.0f)) // the ratio was rounded up to an integer
    rest += TC_LIBM(copysignf)(y, x);
  return TC_LIBM(copysignf)(rest, x);
}
TC_FN double tc_fmod(double x, double y) { return TC_LIBM(fmod)(x, y); }
template <class T> TC_FN T tc_fmod(T x, T y) {
  const bool is_zero = y == T(0) || (y == static_cast<T>(-1) && T(-1) < T(0));
  return is_zero ? T(0) : static_cast<T>(x - tc_whole_quotient(x, y) * y);
}
/// torch.remainder: the divisor's sign.
template <class T> TC_FN T tc_mod(T x, T y, int) {
  const T r = tc_fmod(x, y);
  return r != T(0) && (r < T(0)) != (y < T(0)) ? static_cast<T>(r + y) : r;
}
template <class T> TC_FN T tc_remainder(T x, T y) { return tc_mod(x, y, 0); }
/// Rounds down. Floats: c10::div_floor_floating, which agrees with Python's //.
template <class T> TC_FN T tc_floordiv(T x, T y) {
  const T q = tc_truncdiv(x, y), r = tc_fmod(x, y);
  return r != T(0) && (r < T(0)) != (y < T(0)) ? static_cast<T>(q - 1) : q;
}
template <class T> TC_FN T tc_floordiv_floating(T x, T y) {
  if (y == T(0))
    return x / y;
  T remainder = tc_fmod(x, y), quotient = (x - remainder) / y;
  if (remainder != T(0) && (y < T(0)) != (remainder < T(0)))
    quotient -= T(1);
  if (quotient == T(0))
    return tc_copysign(T(0), x / y);
  T floored = tc_floor(quotient);
  return quotient - floored > T(0.5) ? floored + T(1) : floored;
}
TC_FN float tc_floordiv(float x, float y) {
  const float ratio = x / y;
  if (!tc_divides_closely(ratio, y)) {
    if (y == 0.0f)
      return ratio;
    if (tc_divides_no_number(x, y))
      return TC_NAN;
    return TC_LIBM(fabsf)(y) < TC_INF              ? tc_floordiv_floating(x, y)
           : x != 0.0f && (x < 0.0f) != (y < 0.0f) ? -1.0f
                                                   : TC_LIBM(copysignf)(0.0f, ratio);
  }
  float quotient = TC_LIBM(floorf)(ratio);
  const float rest = TC_LIBM(fmaf)(-quotient, y, x);
  if (rest != 0.0f && (rest < 0.0f) != (y < 0.0f)) // the ratio was rounded up to an integer
    quotient -= 1.0f;
  return quotient == 0.0f ? TC_LIBM(copysignf)(0.0f, ratio) : quotient;
}
TC_FN double tc_floordiv(double x, double y) { return tc_floordiv_floating(x, y); }

TC_MATH_2(pow)
/// Negative exponents: 1 and -1 have exact results, all else is 0.
template <class T> TC_FN T tc_pow(T x, T y) {
  if (y < T(0))
    return x == T(1) ? T(1) : x == static_cast<T>(-1) ? (y % 2 != 0 ? x : T(1)) : T(0);
  T result = 1;
  while (y > T(0)) {
    if (y & T(1))
      result = tc_mul(result, x);
    x = tc_mul(x, x);
    y = static_cast<T>(y >> 1);
  }
  return result;
}

template <class T> TC_FN T tc_bitwise_and(T x, T y) { return static_cast<T>(x & y); }
template <class T> TC_FN T tc_bitwise_or(T x, T y) { return static_cast<T>(x | y); }
template <class T> TC_FN T tc_bitwise_xor(T x, T y) { return static_cast<T>(x ^ y); }
template <class T> TC_FN T tc_bitwise_not(T x) { return static_cast<T>(~x); }
TC_FN bool tc_bitwise_not(bool x) { return !x; }
/// Counts outside [0, bits) shift everything out: 0, or the sign.
template <class T> TC_FN T tc_bitwise_left_shift(T x, T count) {
  constexpr int bits = 8 * sizeof(T);
  if (count < T(0) || count >= T(bits))
    return T(0);
  return static_cast<T>(static_cast<unsigned long long>(x) << static_cast<int>(count));
}
template <class T> TC_FN T tc_bitwise_right_shift(T x, T count) {
  constexpr int bits = 8 * sizeof(T);
  const bool out = count < T(0) || count >= T(bits);
  const int shift = out ? bits - 1 : static_cast<int>(count);
  return out && !(T(-1) < T(0)) ? T(0) : static_cast<T>(x >> shift);
}

template <class T> TC_FN bool tc_truth(T x) { return x != T(0); }
template <class T> TC_FN T tc_where(bool condition, T x, T y) { return condition ? x : y; }
template <class To, class From> TC_FN To tc_bitcast(From x) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the size");
  union {
    From from;
    To to;
  } u;
  u.from = x;
  return u.to;
}

#if defined(TC_DEVICE) && __CUDA_ARCH__ >= 900
#define TC_VECTOR_ATOMICS // and atomic additions of bf16
#endif

/// Adds to memory that other threads add to as well.
#ifdef TC_DEVICE
template <class T> TC_FN void tc_atomic_add(T *p, T x) { atomicAdd(p, x); }
TC_FN void tc_atomic_add(long long *p, long long x) {
  atomicAdd(reinterpret_cast<unsigned long long *>(p), static_cast<unsigned long long>(x));
}
#define TC_ATOMIC_CAS_WORD(p, seen, wanted) atomicCAS(p, seen, wanted)
#define TC_ATOMIC_CAS_HALF(p, seen, wanted) atomicCAS(p, seen, wanted)
#else
template <class T> TC_FN void tc_atomic_add(T *p, T x) { atomicAdd(p, x); }
TC_FN unsigned TC_ATOMIC_CAS_WORD(unsigned *p, unsigned seen, unsigned wanted) {
  __atomic_compare_exchange_n(p, &seen, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return seen;
}
TC_FN unsigned short TC_ATOMIC_CAS_HALF(unsigned short *p, unsigned short seen,
                                        unsigned short wanted) {
  __atomic_compare_exchange_n(p, &seen, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return seen;
}
#endif
/// Types narrower than a word: exchanges 16 bits, or of bytes the word that holds them.
template <class T, class Add> TC_FN void tc_atomic_narrow(T *p, const Add &add) {
  if constexpr (sizeof(T) == 2) {
    unsigned short *half = reinterpret_cast<unsigned short *>(p);
    unsigned short seen = *half;
    for (;;) {
      const unsigned short found =
          TC_ATOMIC_CAS_HALF(half, seen, static_cast<unsigned short>(add(seen)));
      if (found == seen)
        return;
      seen = found;
    }
  }
  const unsigned long long address = reinterpret_cast<unsigned long long>(p);
  unsigned *word = reinterpret_cast<unsigned *>(address & ~3ull);
  const unsigned shift = 8u * static_cast<unsigned>(address & 3ull);
  const unsigned mask = (sizeof(T) == 1 ? 0xffu : 0xffffu) << shift;
  unsigned seen = *word;
  for (;;) {
    const unsigned wanted = (seen & ~mask) | (add((seen & mask) >> shift) << shift & mask);
    const unsigned found = TC_ATOMIC_CAS_WORD(word, seen, wanted);
    if (found == seen)
      return;
    seen = found;
  }
}
/// What adds `bits` to one of a pair of 16-bit floats: to the other one -0.0, which changes no
/// number. GPUs add pairs; of one alone they make a loop that exchanges its word.
TC_FN unsigned tc_pair_with(const void *p, unsigned short bits) {
  return (reinterpret_cast<unsigned long long>(p) & 2) != 0
             ? static_cast<unsigned>(bits) << 16 | 0x8000u
             : 0x80000000u | bits;
}
#ifdef TC_DEVICE
#define TC_ATOMIC_ADD_PAIR(p, name, bits)                                                          \
  asm volatile("red.add.noftz." name                                                               \
               " [%0], %1;" ::"l"(reinterpret_cast<unsigned long long>(p) & ~3ull),                \
               "r"(tc_pair_with(p, bits))                                                          \
               : "memory")
TC_FN void tc_atomic_add(tc_f16 *p, float x) { TC_ATOMIC_ADD_PAIR(p, "f16x2", tc_to_f16(x).bits); }
#else
TC_FN void tc_atomic_add(tc_f16 *p, float x) {
  tc_atomic_narrow(p, [x](unsigned bits) {
    return static_cast<unsigned>(
        tc_to_f16(tc_float(tc_f16{static_cast<unsigned short>(bits)}) + x).bits);
  });
}
#endif
#ifdef TC_VECTOR_ATOMICS
TC_FN void tc_atomic_add(tc_bf16 *p, float x) {
  TC_ATOMIC_ADD_PAIR(p, "bf16x2", tc_to_bf16(x).bits);
}
#else
TC_FN void tc_atomic_add(tc_bf16 *p, float x) {
  tc_atomic_narrow(p, [x](unsigned bits) {
    return static_cast<unsigned>(
        tc_to_bf16(tc_float(tc_bf16{static_cast<unsigned short>(bits)}) + x).bits);
  });
}
#endif
#define TC_ATOMIC_ADD_NARROW(T)                                                                    \
  TC_FN void tc_atomic_add(T *p, T x) {                                                            \
    tc_atomic_narrow(p, [x](unsigned bits) { return bits + static_cast<unsigned>(x); });           \
  }
TC_ATOMIC_ADD_NARROW(signed char)
TC_ATOMIC_ADD_NARROW(unsigned char)
TC_ATOMIC_ADD_NARROW(short)
TC_ATOMIC_ADD_NARROW(unsigned short)
#undef TC_ATOMIC_ADD_NARROW
TC_FN void tc_atomic_add(bool *p, bool x) {
  tc_atomic_narrow(p, [x](unsigned bits) { return bits | static_cast<unsigned>(x); });
}

#ifdef TC_VECTOR_ATOMICS
TC_FN void tc_atomic_add_chunk(float *p, const float (&x)[4]) {
  asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(p), "f"(x[0]), "f"(x[1]),
               "f"(x[2]), "f"(x[3])
               : "memory");
}
#define TC_ATOMIC_ADD_CHUNK(T, name, round)                                                        \
  TC_FN void tc_atomic_add_chunk(T *p, const float(&x)[8]) {                                       \
    asm volatile("red.global.add.noftz.v8." name                                                   \
                 " [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(p),                              \
                 "h"(round(x[0]).bits), "h"(round(x[1]).bits), "h"(round(x[2]).bits),              \
                 "h"(round(x[3]).bits), "h"(round(x[4]).bits), "h"(round(x[5]).bits),              \
                 "h"(round(x[6]).bits), "h"(round(x[7]).bits)                                      \
                 : "memory");                                                                      \
  }
TC_ATOMIC_ADD_CHUNK(tc_f16, "f16", tc_to_f16)
TC_ATOMIC_ADD_CHUNK(tc_bf16, "bf16", tc_to_bf16)
#undef TC_ATOMIC_ADD_CHUNK
#endif
/// Adds V values to neighbours at p, aligned to their size (16 bytes at most): each addition is one
/// of its own, 16 bytes of them one request where the GPU has it.
template <int V, class T> TC_FN void tc_atomic_add_vec(T *p, const float (&x)[V]) {
  int i = 0;
#ifdef TC_VECTOR_ATOMICS
  constexpr int chunk = 16 / static_cast<int>(sizeof(T));
  if constexpr (V % chunk == 0) {
    TC_UNROLL
    for (; i < V; i += chunk) {
      float part[chunk];
      TC_UNROLL
      for (int j = 0; j < chunk; ++j)
        part[j] = x[i + j];
      tc_atomic_add_chunk(p + i, part);
    }
  }
#endif
  TC_UNROLL
  for (; i < V; ++i)
    tc_atomic_add(p + i, x[i]);
}

/// The same to a block's own copy in shared memory, whose type may be another one.
template <int V, class P, class T> TC_FN void tc_atomic_add_each(P *p, const T (&x)[V]) {
  TC_UNROLL
  for (int i = 0; i < V; ++i)
    tc_atomic_add(p + i, static_cast<P>(x[i]));
}

/// Writes to a block's own copy of memory, and notes that something was.
template <class T, class Index>
TC_FN void tc_put(T *copy, unsigned char *marks, Index at, tc_value<T> x) {
  tc_store(copy + at, x);
  marks[at] = 1;
}

/// Multiplies, or takes the larger or smaller one (NaN is both), where other threads do as well.
struct tc_product {};
struct tc_larger {};
struct tc_smaller {};
template <class T> TC_FN T tc_meet(tc_product, T a, T b) { return tc_mul(a, b); }
template <class T> TC_FN T tc_meet(tc_larger, T a, T b) { return tc_maximum(a, b); }
template <class T> TC_FN T tc_meet(tc_smaller, T a, T b) { return tc_minimum(a, b); }
#ifdef TC_DEVICE
#define TC_ATOMIC_CAS_LONG(p, seen, wanted) atomicCAS(p, seen, wanted)
#define TC_COPY_BITS(to, from) memcpy(&(to), &(from), sizeof(from))
#else
TC_FN unsigned long long TC_ATOMIC_CAS_LONG(unsigned long long *p, unsigned long long seen,
                                            unsigned long long wanted) {
  __atomic_compare_exchange_n(p, &seen, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return seen;
}
#define TC_COPY_BITS(to, from) __builtin_memcpy(&(to), &(from), sizeof(from))
#endif
TC_FN unsigned tc_exchange(unsigned *p, unsigned seen, unsigned wanted) {
  return TC_ATOMIC_CAS_WORD(p, seen, wanted);
}
TC_FN unsigned long long tc_exchange(unsigned long long *p, unsigned long long seen,
                                     unsigned long long wanted) {
  return TC_ATOMIC_CAS_LONG(p, seen, wanted);
}
template <class Bits, class T, class Combine>
TC_FN void tc_atomic_wide(T *p, T x, const Combine &combine) {
  Bits *word = reinterpret_cast<Bits *>(p);
  Bits seen = *word;
  for (;;) {
    T old;
    TC_COPY_BITS(old, seen);
    const T changed = tc_meet(combine, old, x);
    Bits wanted;
    TC_COPY_BITS(wanted, changed);
    const Bits found = tc_exchange(word, seen, wanted);
    if (found == seen)
      return;
    seen = found;
  }
}
template <class Combine> TC_FN void tc_atomic(float *p, float x, const Combine &combine) {
  tc_atomic_wide<unsigned>(p, x, combine);
}
template <class Combine> TC_FN void tc_atomic(int *p, int x, const Combine &combine) {
  tc_atomic_wide<unsigned>(p, x, combine);
}
template <class Combine> TC_FN void tc_atomic(double *p, double x, const Combine &combine) {
  tc_atomic_wide<unsigned long long>(p, x, combine);
}
template <class Combine> TC_FN void tc_atomic(long long *p, long long x, const Combine &combine) {
  tc_atomic_wide<unsigned long long>(p, x, combine);
}
template <class Combine> TC_FN void tc_atomic(tc_f16 *p, float x, const Combine &combine) {
  tc_atomic_narrow(p, [=](unsigned bits) {
    const float old = tc_float(tc_f16{static_cast<unsigned short>(bits)});
    return static_cast<unsigned>(tc_to_f16(tc_meet(combine, old, x)).bits);
  });
}
template <class Combine> TC_FN void tc_atomic(tc_bf16 *p, float x, const Combine &combine) {
  tc_atomic_narrow(p, [=](unsigned bits) {
    const float old = tc_float(tc_bf16{static_cast<unsigned short>(bits)});
    return static_cast<unsigned>(tc_to_bf16(tc_meet(combine, old, x)).bits);
  });
}
#define TC_ATOMIC_NARROW(T)                                                                        \
  template <class Combine> TC_FN void tc_atomic(T *p, T x, const Combine &combine) {               \
    tc_atomic_narrow(p, [=](unsigned bits) {                                                       \
      return static_cast<unsigned>(tc_meet(combine, static_cast<T>(bits), x));                     \
    });                                                                                            \
  }
TC_ATOMIC_NARROW(signed char)
TC_ATOMIC_NARROW(unsigned char)
TC_ATOMIC_NARROW(short)
TC_ATOMIC_NARROW(bool)
#undef TC_ATOMIC_NARROW
// The larger or smaller one of 4 and 8 bytes. What stands there only ever grows (or falls), so what
// was read a while ago may tell that nothing is to be done. Floats of one sign order as their bits
// do; a NaN that is written lies beyond all of them, one that was there is seen before.
TC_FN void tc_atomic(int *p, int x, tc_larger) {
  if (*p < x)
    atomicMax(p, x);
}
TC_FN void tc_atomic(int *p, int x, tc_smaller) {
  if (x < *p)
    atomicMin(p, x);
}
TC_FN void tc_atomic(long long *p, long long x, tc_larger) {
  if (*p < x)
    atomicMax(p, x);
}
TC_FN void tc_atomic(long long *p, long long x, tc_smaller) {
  if (x < *p)
    atomicMin(p, x);
}
template <class Signed, class Unsigned, class T> TC_FN void tc_raise(T *p, T x) {
  const T seen = *p;
  if (seen != seen || seen >= x)
    return;
  Signed bits;
  TC_COPY_BITS(bits, x);
  if (x != x)
    atomicMax(reinterpret_cast<Signed *>(p), static_cast<Signed>(~Unsigned(0) >> 1));
  else if (bits >= 0)
    atomicMax(reinterpret_cast<Signed *>(p), bits);
  else
    atomicMin(reinterpret_cast<Unsigned *>(p), static_cast<Unsigned>(bits));
}
template <class Signed, class Unsigned, class T> TC_FN void tc_lower(T *p, T x) {
  const T seen = *p;
  if (seen != seen || seen <= x)
    return;
  Signed bits;
  TC_COPY_BITS(bits, x);
  if (x != x)
    atomicMax(reinterpret_cast<Unsigned *>(p), ~Unsigned(0));
  else if (bits >= 0)
    atomicMin(reinterpret_cast<Signed *>(p), bits);
  else
    atomicMax(reinterpret_cast<Unsigned *>(p), static_cast<Unsigned>(bits));
}
TC_FN void tc_atomic(float *p, float x, tc_larger) { tc_raise<int, unsigned>(p, x); }
TC_FN void tc_atomic(float *p, float x, tc_smaller) { tc_lower<int, unsigned>(p, x); }
TC_FN void tc_atomic(double *p, double x, tc_larger) {
  tc_raise<long long, unsigned long long>(p, x);
}
TC_FN void tc_atomic(double *p, double x, tc_smaller) {
  tc_lower<long long, unsigned long long>(p, x);
}
template <class P, class T> TC_FN void tc_atomic_mul(P *p, T x) { tc_atomic(p, x, tc_product{}); }
template <class P, class T> TC_FN void tc_atomic_max(P *p, T x) { tc_atomic(p, x, tc_larger{}); }
template <class P, class T> TC_FN void tc_atomic_min(P *p, T x) { tc_atomic(p, x, tc_smaller{}); }
