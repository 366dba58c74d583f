// The prelude's generator, on the host: published vectors, and bit for bit what the oracle draws.
#include "interpret/random.h"

#include "testing/catch.h"

#include "tc_host.h"

#include "tc_numeric.h"

#include "tc_math.h"
#include "tc_random.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace tsc;
using Words = std::array<uint32_t, 4>;

namespace {

uint64_t joined(uint32_t low, uint32_t high) { return uint64_t{high} << 32 | low; }

Words prelude_philox(const Words &counter, std::array<uint32_t, 2> key) {
  const tc_random_words words = tc_philox(joined(key[0], key[1]), joined(counter[0], counter[1]),
                                          joined(counter[2], counter[3]));
  return {words.at[0], words.at[1], words.at[2], words.at[3]};
}

template <class T> bool same_bits(T a, T b) { return std::memcmp(&a, &b, sizeof(T)) == 0; }

} // namespace

TEST_CASE("Philox gives the vectors that Random123 publishes") {
  struct Vector {
    Words counter;
    std::array<uint32_t, 2> key;
    Words expected;
  };
  const uint32_t all = 0xffffffff;
  const Vector vectors[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{all, all, all, all}, {all, all}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (const Vector &vector : vectors) {
    CHECK(interpret::philox(vector.counter, vector.key) == vector.expected);
    CHECK(prelude_philox(vector.counter, vector.key) == vector.expected);
  }
}

TEST_CASE("the prelude and the oracle draw the same bits") {
  using ir::Op;
  using tensor::DType;
  size_t different = 0;
  const int64_t seeds[] = {0, -1, 0x123456789abcdef}, streams[] = {0, 5, int64_t{7} << 32 | 3};
  for (const int64_t seed : seeds)
    for (const int64_t stream : streams)
      for (int64_t i = 0; i < 3000; ++i) {
        const int64_t offset = i < 2000 ? i : (int64_t{1} << 34) + i; // beyond 32 bits of blocks
        const auto real = [&](Op op, DType dtype) {
          return interpret::random_real(op, dtype, seed, stream, offset);
        };
        const auto single = [&](Op op) { return static_cast<float>(real(op, DType::f32)); };
        different += !same_bits(tc_rand<float>(seed, stream, offset), single(Op::rand));
        different += !same_bits(tc_randn<float>(seed, stream, offset), single(Op::randn));
        different += !same_bits(tc_rand_exponential<float>(seed, stream, offset),
                                single(Op::rand_exponential));
        different += !same_bits(tc_rand<double>(seed, stream, offset), real(Op::rand, DType::f64));
        different +=
            !same_bits(tc_randn<double>(seed, stream, offset), real(Op::randn, DType::f64));
        different += !same_bits(tc_rand_exponential<double>(seed, stream, offset),
                                real(Op::rand_exponential, DType::f64));
        different += tc_rand_bits<long long>(seed, stream, offset) !=
                     interpret::random_bits(seed, stream, offset);
      }
  CHECK(different == 0);
}

TEST_CASE("the series of the generator are as good as a library's") {
  double worst_log = 0, worst_wave = 0, worst_log_double = 0, worst_wave_double = 0;
  for (unsigned i = 0; i < 100000; ++i) {
    const unsigned word = i * 42949u + 17u;
    const float u = tc_positive_unit(word), turn = tc_unit(word);
    const double exact = std::log(static_cast<double>(u));
    worst_log = std::max(worst_log, std::fabs(tc_random_log(u) - exact) / std::fabs(exact));
    const double angle = 6.283185307179586476925 * static_cast<double>(turn);
    worst_wave = std::max(worst_wave, std::fabs(tc_random_wave(turn, false) - std::cos(angle)));
    worst_wave = std::max(worst_wave, std::fabs(tc_random_wave(turn, true) - std::sin(angle)));
    const unsigned long long pair = word * 0x100000001ull;
    const double v = tc_positive_unit(pair), wide = tc_unit(pair);
    worst_log_double = std::max(worst_log_double,
                                std::fabs(tc_random_log(v) - std::log(v)) / std::fabs(std::log(v)));
    worst_wave_double =
        std::max(worst_wave_double,
                 std::fabs(tc_random_wave(wide, true) - std::sin(6.283185307179586476925 * wide)));
  }
  CHECK(worst_log < 3e-7);
  CHECK(worst_wave < 3e-7);
  CHECK(worst_log_double < 1e-15);
  CHECK(worst_wave_double < 2e-15);
}
