// Keys: unsigned integers in the order of elements, NaN above everything, -0.0 with 0.0. Found by
// bits alone, whatever a compiler takes floats for. Included by what sorts or selects by keys.
#pragma once

template <class U> TC_FN U tc_order_float_key(U bits, U infinity) {
  constexpr U sign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  const U magnitude = static_cast<U>(bits & static_cast<U>(~sign));
  if (magnitude > infinity)
    return static_cast<U>(~U(0));
  if (magnitude == 0)
    return sign;
  return static_cast<U>(bits & sign ? static_cast<U>(~bits) : static_cast<U>(bits | sign));
}
TC_FN unsigned tc_order_key(bool x) { return x ? 1u : 0u; }
TC_FN unsigned tc_order_key(unsigned char x) { return x; }
TC_FN unsigned tc_order_key(signed char x) { return static_cast<unsigned char>(x) ^ 0x80u; }
TC_FN unsigned tc_order_key(unsigned short x) { return x; }
TC_FN unsigned tc_order_key(short x) { return static_cast<unsigned short>(x) ^ 0x8000u; }
TC_FN unsigned tc_order_key(unsigned x) { return x; }
TC_FN unsigned tc_order_key(int x) { return static_cast<unsigned>(x) ^ 0x80000000u; }
TC_FN unsigned long long tc_order_key(unsigned long long x) { return x; }
TC_FN unsigned long long tc_order_key(long long x) {
  return static_cast<unsigned long long>(x) ^ 0x8000000000000000ull;
}
TC_FN unsigned tc_order_key(tc_f16 x) {
  return tc_order_float_key(x.bits, static_cast<unsigned short>(0x7c00));
}
TC_FN unsigned tc_order_key(tc_bf16 x) {
  return tc_order_float_key(x.bits, static_cast<unsigned short>(0x7f80));
}
TC_FN unsigned tc_order_key(float x) { return tc_order_float_key(tc_float_bits(x), 0x7f800000u); }
TC_FN unsigned long long tc_order_key(double x) {
  return tc_order_float_key(tc_bitcast<unsigned long long>(x), 0x7ff0000000000000ull);
}

/// An element that has the key. Of floats: 0.0 of both zeros, one NaN of all.
template <class U> TC_FN U tc_float_of_order_key(U key) {
  constexpr U sign = static_cast<U>(U(1) << (8 * sizeof(U) - 1));
  return static_cast<U>(key & sign ? key ^ sign : ~key);
}
template <class T> TC_FN T tc_of_order_key(unsigned key, T) { return static_cast<T>(key); }
TC_FN signed char tc_of_order_key(unsigned key, signed char) {
  return static_cast<signed char>(key ^ 0x80u);
}
TC_FN short tc_of_order_key(unsigned key, short) { return static_cast<short>(key ^ 0x8000u); }
TC_FN int tc_of_order_key(unsigned key, int) { return static_cast<int>(key ^ 0x80000000u); }
TC_FN tc_f16 tc_of_order_key(unsigned key, tc_f16) {
  return {tc_float_of_order_key(static_cast<unsigned short>(key))};
}
TC_FN tc_bf16 tc_of_order_key(unsigned key, tc_bf16) {
  return {tc_float_of_order_key(static_cast<unsigned short>(key))};
}
