// Random numbers as functions of (seed, stream, offset): Philox 4x32-10 (Salmon et al., "Parallel
// random numbers: as easy as 1, 2, 3"), and distributions on top. Only kernels that draw include
// it. docs/random.md says what the three mean.
//
// The same bits everywhere: integers are exact, and every floating step is one correctly rounded
// operation (a product, quotient or root that no sum follows, or an explicit tc_fma), so
// contraction and the quality of a math library decide nothing.
#pragma once

#include "tc_math.h"

struct alignas(16) tc_random_words {
  unsigned at[4];
};

/// Philox 4x32-10 of counter (low word of `low` first) under `key`.
TC_FN tc_random_words tc_philox(unsigned long long key, unsigned long long low,
                                unsigned long long high) {
  unsigned key0 = static_cast<unsigned>(key), key1 = static_cast<unsigned>(key >> 32);
  unsigned x0 = static_cast<unsigned>(low), x1 = static_cast<unsigned>(low >> 32),
           x2 = static_cast<unsigned>(high), x3 = static_cast<unsigned>(high >> 32);
  TC_UNROLL
  for (int round = 0; round < 10; ++round) {
    const unsigned long long p0 = 0xD2511F53ull * x0, p1 = 0xCD9E8D57ull * x2;
    x0 = static_cast<unsigned>(p1 >> 32) ^ x1 ^ key0;
    x1 = static_cast<unsigned>(p1);
    x2 = static_cast<unsigned>(p0 >> 32) ^ x3 ^ key1;
    x3 = static_cast<unsigned>(p0);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return {{x0, x1, x2, x3}};
}

/// Four consecutive offsets share a block of four words: a thread that holds them computes it once.
TC_FN tc_random_words tc_random_block(long long seed, long long stream, long long block) {
  return tc_philox(static_cast<unsigned long long>(seed), static_cast<unsigned long long>(block),
                   static_cast<unsigned long long>(stream));
}

/// Offset base + j, base being a multiple of 4, of an element of a run. Once the loop over the run
/// is unrolled, block and word follow from j alone: what shares a block computes it once.
struct tc_run_offset {
  long long base;
  int j;
};
TC_FN long long operator>>(tc_run_offset offset, int by) {
  return (offset.base >> by) + (offset.j >> by);
}
TC_FN int operator&(tc_run_offset offset, int bits) { return offset.j & bits; }

/// The same of a run of two elements, base being even.
struct tc_pair_offset {
  long long base;
  int j;
};
TC_FN long long operator>>(tc_pair_offset offset, int by) { return offset.base >> by; }
TC_FN int operator&(tc_pair_offset offset, int bits) {
  return (static_cast<int>(offset.base) | offset.j) & bits;
}

/// Offset base + lane, base being a multiple of 32, of an element whose neighbours are those of the
/// warp's other lanes: the blocks of words of all 32 are there (tc_draw_words).
struct tc_held_offset {
  const tc_random_words *blocks;
  int lane;
};
TC_FN const tc_random_words *operator>>(tc_held_offset offset, int by) {
  return offset.blocks + (offset.lane >> by);
}
TC_FN int operator&(tc_held_offset offset, int bits) { return offset.lane & bits; }
TC_FN tc_random_words tc_random_block(long long, long long, const tc_random_words *block) {
  return *block;
}
TC_FN unsigned tc_random_word(long long, long long, tc_held_offset offset) {
  return offset.blocks[offset.lane >> 2].at[offset.lane & 3];
}
/// The blocks of words for the elements of a warp, 32 neighbours in each of `Blocks / 8` steps:
/// each lane computes as many as any other, and no two the same. `first`: the first element's
/// offset; `apart`: offsets from one step to the next; both multiples of 4. All lanes call it.
template <int Blocks>
TC_FN void tc_draw_words(long long seed, long long stream, long long first, int apart,
                         tc_random_words (&words)[Blocks]) {
  TC_UNROLL
  for (int i = 0; i < Blocks; i += 32) {
    const int block = i + static_cast<int>(threadIdx.x & 31u);
    if (Blocks % 32 == 0 || block < Blocks)
      words[block] = tc_random_block(
          seed, stream, (first + static_cast<long long>(block / 8) * apart) / 4 + block % 8);
  }
  __syncwarp(0xffffffffu);
}

template <class Offset>
TC_FN unsigned tc_random_word(long long seed, long long stream, Offset offset) {
  const tc_random_words words = tc_random_block(seed, stream, offset >> 2);
  const unsigned low = offset & 1 ? words.at[1] : words.at[0];
  const unsigned high = offset & 1 ? words.at[3] : words.at[2];
  return offset & 2 ? high : low;
}
/// 64 bits: two offsets share a block.
template <class Offset>
TC_FN unsigned long long tc_random_pair(long long seed, long long stream, Offset offset) {
  const tc_random_words words = tc_random_block(seed, stream, offset >> 1);
  const unsigned low = offset & 1 ? words.at[2] : words.at[0];
  const unsigned high = offset & 1 ? words.at[3] : words.at[1];
  return static_cast<unsigned long long>(high) << 32 | low;
}

template <class T, class Offset>
TC_FN T tc_rand_bits(long long seed, long long stream, Offset offset) {
  return static_cast<T>(tc_random_pair(seed, stream, offset));
}

/// In [0, 1): multiples of 2^-24, of 2^-53.
TC_FN float tc_unit(unsigned word) {
  return static_cast<float>(word >> 8) * 5.9604644775390625e-8f;
}
TC_FN double tc_unit(unsigned long long pair) {
  return static_cast<double>(pair >> 11) * 1.1102230246251565e-16;
}
/// In (0, 1]: never 0, so that it has a logarithm.
TC_FN float tc_positive_unit(unsigned word) {
  return tc_fma(static_cast<float>(word), 2.3283064365386963e-10f, 1.1641532182693481e-10f);
}
TC_FN double tc_positive_unit(unsigned long long pair) {
  return tc_fma(static_cast<double>(pair), 5.421010862427522e-20, 2.710505431213761e-20);
}

/// x = mantissa * 2^exponent, the mantissa in [sqrt(1/2), sqrt(2)); x is normal.
TC_FN int tc_split(float x, float *mantissa) {
  const unsigned bits = tc_bitcast<unsigned>(x);
  const int exponent = static_cast<int>(bits - 0x3f3504f3u) >> 23;
  *mantissa = tc_bitcast<float>(bits - (static_cast<unsigned>(exponent) << 23));
  return exponent;
}
TC_FN int tc_split(double x, double *mantissa) {
  const unsigned long long bits = tc_bitcast<unsigned long long>(x);
  const long long exponent = static_cast<long long>(bits - 0x3fe6a09e667f3bcdull) >> 52;
  *mantissa = tc_bitcast<double>(bits - (static_cast<unsigned long long>(exponent) << 52));
  return static_cast<int>(exponent);
}

/// log(x) = exponent log(2) + 2 (s + s^3/3 + s^5/5 + ..), s = (mantissa - 1) / (mantissa + 1).
template <class T> TC_FN T tc_random_log(T x) {
  constexpr int kTerms = sizeof(T) == 4 ? 5 : 12;
  T mantissa;
  const int exponent = tc_split(x, &mantissa);
  const T s = (mantissa - T(1)) / (mantissa + T(1)), z = s * s;
  T series = T(2) / T(2 * kTerms + 1);
  TC_UNROLL
  for (int k = kTerms - 1; k > 0; --k)
    series = tc_fma(series, z, T(2) / T(2 * k + 1));
  const T logarithm = tc_fma(s * z, series, T(2) * s);
  return tc_fma(static_cast<T>(exponent), T(0.693147180559945309417), logarithm);
}

/// cos (odd = false) or sin of 2 pi turn, turn in [0, 1): Taylor series within an eighth of a turn.
template <class T> TC_FN T tc_random_wave(T turn, bool odd) {
  constexpr int kTerms = sizeof(T) == 4 ? 5 : 9;
  const int quarter = static_cast<int>(turn * T(4) + T(0.5)); // both steps exact, as is the next
  const T angle = (turn * T(4) - static_cast<T>(quarter)) * T(1.57079632679489661923);
  const T z = angle * angle;
  T sine = T(1), cosine = T(1);
  TC_UNROLL
  for (int k = kTerms; k > 0; --k) {
    sine = tc_fma(sine * z, T(-1) / T(2 * k * (2 * k + 1)), T(1));
    cosine = tc_fma(cosine * z, T(-1) / T((2 * k - 1) * 2 * k), T(1));
  }
  sine = angle * sine;
  const int shifted = quarter + (odd ? 3 : 0); // sin(a) = cos(a - a quarter)
  const T value = shifted & 1 ? sine : cosine;
  const int sign = shifted & 3; // cos, -sin, -cos, sin
  return sign == 1 || sign == 2 ? -value : value;
}

/// Box and Muller's pairs: an even offset and the next one share radius and angle.
template <class T> struct tc_drawing;
template <> struct tc_drawing<float> {
  template <class Offset> TC_FN float uniform(long long seed, long long stream, Offset offset) {
    return tc_unit(tc_random_word(seed, stream, offset));
  }
  template <class Offset> TC_FN float positive(long long seed, long long stream, Offset offset) {
    return tc_positive_unit(tc_random_word(seed, stream, offset));
  }
  template <class Offset> TC_FN float normal(long long seed, long long stream, Offset offset) {
    const tc_random_words words = tc_random_block(seed, stream, offset >> 2);
    const unsigned first = offset & 2 ? words.at[2] : words.at[0];
    const unsigned second = offset & 2 ? words.at[3] : words.at[1];
    return tc_sqrt(-2.0f * tc_random_log(tc_positive_unit(first))) *
           tc_random_wave(tc_unit(second), (offset & 1) != 0);
  }
};
template <> struct tc_drawing<double> {
  template <class Offset> TC_FN double uniform(long long seed, long long stream, Offset offset) {
    return tc_unit(tc_random_pair(seed, stream, offset));
  }
  template <class Offset> TC_FN double positive(long long seed, long long stream, Offset offset) {
    return tc_positive_unit(tc_random_pair(seed, stream, offset));
  }
  template <class Offset> TC_FN double normal(long long seed, long long stream, Offset offset) {
    const tc_random_words words = tc_random_block(seed, stream, offset >> 1);
    const auto pair = [&](int i) {
      return static_cast<unsigned long long>(words.at[i + 1]) << 32 | words.at[i];
    };
    const double radius = tc_positive_unit(pair(0)), turn = tc_unit(pair(2));
    return tc_sqrt(-2.0 * tc_random_log(radius)) * tc_random_wave(turn, (offset & 1) != 0);
  }
};

/// Uniform in [0, 1).
template <class T, class Offset> TC_FN T tc_rand(long long seed, long long stream, Offset offset) {
  return tc_drawing<T>::uniform(seed, stream, offset);
}
/// Normal, mean 0, variance 1.
template <class T, class Offset> TC_FN T tc_randn(long long seed, long long stream, Offset offset) {
  return tc_drawing<T>::normal(seed, stream, offset);
}
/// Exponential, mean 1; never 0, so that it can divide.
template <class T, class Offset>
TC_FN T tc_rand_exponential(long long seed, long long stream, Offset offset) {
  const T value = -tc_random_log(tc_drawing<T>::positive(seed, stream, offset));
  const T least = sizeof(T) == 4 ? T(5.9604644775390625e-8) : T(1.1102230246251565e-16);
  return value < least ? least : value;
}
