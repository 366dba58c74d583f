// Floats of 16 and 8 bits (storage only: arithmetic is done in float) and their conversions, with
// PyTorch's meaning, by the machine's instructions where it has some.
#pragma once

/// IEEE binary16 and bfloat16 bits. Kernels load them, compute in float and round when they store.
struct tc_f16 {
  unsigned short bits;
};
struct tc_bf16 {
  unsigned short bits;
};

#if defined(TC_DEVICE) && defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define TC_CONVERTS_F8 1 // instructions between 8-bit floats and others
#endif

#ifdef TC_DEVICE
TC_FN unsigned tc_float_bits(float x) { return __float_as_uint(x); }
TC_FN float tc_bits_float(unsigned x) { return __uint_as_float(x); }
TC_FN float tc_float(tc_f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
TC_FN tc_f16 tc_to_f16(float x) {
  tc_f16 y;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
  return y;
}
/// Of one float alone the conversion is a special unit's (a quarter of the rate), of two it is not.
TC_FN tc_bf16 tc_to_bf16(float x) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(0.0f), "f"(x));
  return {static_cast<unsigned short>(y)};
}
TC_FN float tc_round_bf16(float x) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(x), "f"(0.0f));
  return __uint_as_float(y); // the high half, and zeros
}
/// Two at once, `a` in the low half.
TC_FN unsigned tc_pack(tc_f16, float a, float b) {
  unsigned y;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));
  return y;
}
TC_FN unsigned tc_pack(tc_bf16, float a, float b) {
  unsigned y;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(b), "f"(a));
  return y;
}
#else
TC_FN unsigned tc_float_bits(float x) { return __builtin_bit_cast(unsigned, x); }
TC_FN float tc_bits_float(unsigned x) { return __builtin_bit_cast(float, x); }
TC_FN float tc_float(tc_f16 x) {
  // Shifted into place as a float whose exponent is 112 too small; the product mends it, subnormals
  // included.
  const unsigned sign = (x.bits & 0x8000u) << 16, rest = (x.bits & 0x7fffu) << 13;
  const float scaled = tc_bits_float(rest) * 0x1p112f;
  const unsigned finite = tc_float_bits(scaled), special = rest | 0x7f800000u;
  return tc_bits_float(sign | (rest >= 0x0f800000u ? special : finite));
}
TC_FN tc_f16 tc_to_f16(float x) {
  const unsigned bits = tc_float_bits(x), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
  // Normal results: round the 13 low bits to even, then move the exponent. Subnormal results:
  // adding 0.5 to a value below 2^-14 leaves the rounded result in the low bits of the sum.
  const unsigned normal = (rest + 0xfffu + ((rest >> 13) & 1u) - 0x38000000u) >> 13;
  const unsigned subnormal = tc_float_bits(tc_bits_float(rest) + 0.5f) - 0x3f000000u;
  const unsigned finite = rest < 0x38800000u ? subnormal : normal;
  const unsigned large = rest > 0x7f800000u ? 0x7fffu : 0x7c00u;
  return {static_cast<unsigned short>(sign | (rest >= 0x477ff000u ? large : finite))};
}
TC_FN tc_bf16 tc_to_bf16(float x) {
  const unsigned bits = tc_float_bits(x);
  const unsigned rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return {static_cast<unsigned short>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded)};
}
TC_FN unsigned tc_pack(tc_f16, float a, float b) {
  return tc_to_f16(a).bits | static_cast<unsigned>(tc_to_f16(b).bits) << 16;
}
TC_FN float tc_round_bf16(float x) {
  return tc_bits_float(static_cast<unsigned>(tc_to_bf16(x).bits) << 16);
}
TC_FN unsigned tc_pack(tc_bf16, float a, float b) {
  return tc_to_bf16(a).bits | static_cast<unsigned>(tc_to_bf16(b).bits) << 16;
}
#endif
TC_FN float tc_float(tc_bf16 x) { return tc_bits_float(static_cast<unsigned>(x.bits) << 16); }

/// The value as the nearest element of the narrow type, still held in a float.
TC_FN float tc_round_f16(float x) { return tc_float(tc_to_f16(x)); }

/// 8-bit floats: Mantissa bits, an exponent biased by Bias. Largest is the largest number; Beyond
/// is what becomes of larger ones, Nan of NaN: in the place of -0 where it is 0x80.
template <int Mantissa, int Bias, unsigned Largest, unsigned Beyond, unsigned Nan> struct tc_f8 {
  unsigned char bits;
  /// Types that machines convert, from sm_89 on: to the nearest number, ties to even.
  static constexpr bool is_native = (Mantissa == 3 && Bias == 7) || (Mantissa == 2 && Bias == 15);
  TC_FN float widen(unsigned bits) {
#ifdef TC_CONVERTS_F8
    if constexpr (is_native) {
      unsigned halves; // binary16, which has all of these numbers
      if constexpr (Mantissa == 3)
        asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(static_cast<unsigned short>(bits)));
      else
        halves = bits << 8;
      const float x = tc_float(tc_f16{static_cast<unsigned short>(halves)});
      const unsigned sign = (bits & 0x80u) << 24; // which the machine's NaN has not
      return tc_bits_float(tc_float_bits(x) | sign);
    }
#endif
    constexpr int shift = 23 - Mantissa;
    const unsigned sign = (bits & 0x80u) << 24, rest = bits & 0x7fu;
    if (Nan == 0x80u ? bits == Nan : rest > Largest)
      return tc_bits_float(sign | 0x7f800000u | (Nan == 0x80u ? 0x400000u : rest << shift));
    const float scaled =
        tc_bits_float(rest << shift) * tc_bits_float(static_cast<unsigned>(254 - Bias) << 23);
    return tc_bits_float(sign | tc_float_bits(scaled));
  }
  TC_FN tc_f8 nearest(float x) {
#ifdef TC_CONVERTS_F8
    if constexpr (is_native)
      return with_beyond(x, {static_cast<unsigned char>(saturated_two(x, 0.0f))});
#endif
    constexpr int shift = 23 - Mantissa;
    constexpr unsigned least = static_cast<unsigned>(128 - Bias) << 23; // that is not subnormal
    // A float whose last bit is the smallest number.
    constexpr unsigned unit = static_cast<unsigned>(128 - Bias + shift) << 23;
    const unsigned bits = tc_float_bits(x), sign = bits >> 24 & 0x80u, rest = bits & 0x7fffffffu;
    const unsigned normal = (rest + ((1u << (shift - 1)) - 1) + (rest >> shift & 1u) -
                             (static_cast<unsigned>(127 - Bias) << 23)) >>
                            shift;
    const unsigned subnormal = tc_float_bits(tc_bits_float(rest) + tc_bits_float(unit)) - unit;
    const unsigned finite = rest < least ? subnormal : normal;
    const unsigned y = rest > 0x7f800000u ? Nan : finite > Largest ? Beyond : finite;
    return {static_cast<unsigned char>(Nan == 0x80u && y == 0 ? 0 : sign | y)};
  }
#ifdef TC_CONVERTS_F8
  /// The first float that rounds to more than the largest number.
  static constexpr float beyond = Mantissa == 3 ? 464.00003f : 61440.0f;
  /// Two floats as the machine converts them, `a` in the low byte: what is larger than the largest
  /// number becomes that, and NaN a NaN without sign.
  TC_FN unsigned short saturated_two(float a, float b) {
    unsigned short y;
    if constexpr (Mantissa == 3)
      asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(y) : "f"(b), "f"(a));
    else
      asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(y) : "f"(b), "f"(a));
    return y;
  }
  /// `y`, what `x` was converted to, or what it should have been.
  TC_FN tc_f8 with_beyond(float x, tc_f8 y) {
    const unsigned sign = tc_float_bits(x) >> 24 & 0x80u, other = x == x ? Beyond : Nan;
    return {static_cast<unsigned char>(fabsf(x) < beyond ? y.bits : sign | other)};
  }
  /// The larger magnitude; NaN if one of them is.
  TC_FN float larger(float a, float b) {
    float y;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(y) : "f"(fabsf(a)), "f"(fabsf(b)));
    return y;
  }
#endif
};
using tc_f8e4m3fn = tc_f8<3, 7, 0x7e, 0x7f, 0x7f>;
using tc_f8e5m2 = tc_f8<2, 15, 0x7b, 0x7c, 0x7f>;
using tc_f8e4m3fnuz = tc_f8<3, 8, 0x7f, 0x80, 0x80>;
using tc_f8e5m2fnuz = tc_f8<2, 16, 0x7f, 0x80, 0x80>;
/// Powers of two from 2^-127 on: the exponent of a float, rounded; the sign is left out.
struct tc_f8e8m0fnu {
  unsigned char bits;
  TC_FN float widen(unsigned bits) {
    return tc_bits_float(bits == 0 ? 0x400000u : bits == 255u ? 0x7fc00000u : bits << 23);
  }
  TC_FN tc_f8e8m0fnu nearest(float x) {
    const unsigned rest = tc_float_bits(x) & 0x7fffffffu, exponent = rest >> 23,
                   part = rest & 0x7fffffu;
    const bool up = exponent < 255u && (exponent > 0 ? part >= 0x400000u : part > 0x400000u);
    return {static_cast<unsigned char>(exponent + (up ? 1u : 0u))};
  }
};
template <int M, int B, unsigned L, unsigned O, unsigned N>
TC_FN float tc_float(tc_f8<M, B, L, O, N> x) {
  return x.widen(x.bits);
}
TC_FN float tc_float(tc_f8e8m0fnu x) { return x.widen(x.bits); }
/// The value as the nearest element of an 8-bit type.
template <class T> TC_FN float tc_round(float x) { return tc_float(T::nearest(x)); }
