#include "interpret/random.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::interpret {

using ir::Op;

std::array<uint32_t, 4> philox(std::array<uint32_t, 4> counter, std::array<uint32_t, 2> key) {
  constexpr int kRounds = 10;
  for (int round = 0; round < kRounds; ++round) {
    const uint64_t even = uint64_t{0xD2511F53} * counter[0],
                   odd = uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<uint32_t>(odd >> 32) ^ counter[1] ^ key[0], static_cast<uint32_t>(odd),
               static_cast<uint32_t>(even >> 32) ^ counter[3] ^ key[1],
               static_cast<uint32_t>(even)};
    key[0] += 0x9E3779B9; // the golden ratio
    key[1] += 0xBB67AE85; // sqrt(3) - 1
  }
  return counter;
}

namespace {

struct Source {
  int64_t seed, stream;

  std::array<uint32_t, 4> block(int64_t number) const {
    return philox({low(number), high(number), low(stream), high(stream)}, {low(seed), high(seed)});
  }
  uint32_t word(int64_t offset) const {
    return block(offset >> 2)[static_cast<size_t>(offset & 3)];
  }
  uint64_t pair(int64_t offset) const {
    const std::array<uint32_t, 4> words = block(offset >> 1);
    const size_t first = offset % 2 != 0 ? 2 : 0;
    return uint64_t{words[first + 1]} << 32 | words[first];
  }

private:
  static uint32_t low(int64_t value) { return static_cast<uint32_t>(value); }
  static uint32_t high(int64_t value) {
    return static_cast<uint32_t>(static_cast<uint64_t>(value) >> 32);
  }
};

/// In [0, 1): the top bits, as many as T's significand has.
template <class T, class Bits> T unit(Bits bits) {
  constexpr int kKept = std::numeric_limits<T>::digits, kAll = std::numeric_limits<Bits>::digits;
  return std::ldexp(static_cast<T>(bits >> (kAll - kKept)), -kKept);
}
/// In (0, 1]: (bits + 1/2) / 2^n.
template <class T, class Bits> T positive_unit(Bits bits) {
  constexpr int kAll = std::numeric_limits<Bits>::digits;
  const T step = std::ldexp(T(1), -kAll);
  return std::fma(static_cast<T>(bits), step, step / 2);
}

/// log(m 2^e) = e log 2 + 2 artanh((m - 1) / (m + 1)), by its series.
template <class T> T logarithm(T x) {
  constexpr int kTerms = std::is_same_v<T, float> ? 5 : 12;
  int exponent = 0;
  T mantissa = std::frexp(x, &exponent); // in [1/2, 1)
  if (mantissa < static_cast<T>(0.70710678118654752440)) {
    mantissa *= 2;
    --exponent;
  }
  const T s = (mantissa - 1) / (mantissa + 1), z = s * s;
  T series = T(2) / T(2 * kTerms + 1);
  for (int k = kTerms - 1; k > 0; --k)
    series = std::fma(series, z, T(2) / T(2 * k + 1));
  const T twice = 2 * s, cube = s * z;
  return std::fma(T(exponent), static_cast<T>(0.693147180559945309417),
                  std::fma(cube, series, twice));
}

/// (cos, sin) of 2 pi turn.
template <class T> std::pair<T, T> on_circle(T turn) {
  constexpr int kTerms = std::is_same_v<T, float> ? 5 : 9;
  const T quarters = 4 * turn;
  const T nearest = std::floor(quarters + T(0.5));
  const T angle = (quarters - nearest) * static_cast<T>(1.57079632679489661923);
  const T z = angle * angle;
  T sine = 1, cosine = 1;
  for (int k = kTerms; k > 0; --k) {
    const T next_sine = sine * z, next_cosine = cosine * z;
    sine = std::fma(next_sine, T(-1) / T(2 * k * (2 * k + 1)), T(1));
    cosine = std::fma(next_cosine, T(-1) / T((2 * k - 1) * 2 * k), T(1));
  }
  sine = angle * sine;
  switch (static_cast<int>(nearest) % 4) {
  case 0:
    return {cosine, sine};
  case 1:
    return {-sine, cosine};
  case 2:
    return {-cosine, -sine};
  default:
    return {sine, -cosine};
  }
}

template <class T, class Bits> T normal(Bits radius_bits, Bits angle_bits, bool odd) {
  const T radius = std::sqrt(T(-2) * logarithm(positive_unit<T>(radius_bits)));
  const std::pair<T, T> point = on_circle(unit<T>(angle_bits));
  return radius * (odd ? point.second : point.first);
}

template <class T, class Bits> T exponential(Bits bits) {
  return std::max(-logarithm(positive_unit<T>(bits)), std::numeric_limits<T>::epsilon() / 2);
}

} // namespace

double random_real(Op op, tensor::DType dtype, int64_t seed, int64_t stream, int64_t offset) {
  const Source source{seed, stream};
  const bool odd = offset % 2 != 0;
  if (dtype == tensor::DType::f64) {
    if (op == Op::rand)
      return unit<double>(source.pair(offset));
    if (op == Op::rand_exponential)
      return exponential<double>(source.pair(offset));
    const int64_t even = offset - (odd ? 1 : 0);
    return normal<double>(source.pair(even), source.pair(even + 1), odd);
  }
  if (op == Op::rand)
    return unit<float>(source.word(offset));
  if (op == Op::rand_exponential)
    return exponential<float>(source.word(offset));
  const int64_t even = offset - (odd ? 1 : 0);
  return normal<float>(source.word(even), source.word(even + 1), odd);
}

int64_t random_bits(int64_t seed, int64_t stream, int64_t offset) {
  return static_cast<int64_t>(Source{seed, stream}.pair(offset));
}

} // namespace tsc::interpret
