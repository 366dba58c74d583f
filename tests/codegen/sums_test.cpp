// The prelude's sums on the host.
#include "testing/catch.h"

#include "tc_host.h"

#include "tc_numeric.h"

#include "tc_math.h"
#include "tc_reduce.h"

#include <cmath>
#include <limits>

TEST_CASE("long sums keep what roundings lose, and infinities and NaN as they are") {
  tc_long_sum sum = tc_sum::identity<tc_long_sum>();
  sum += 1e16;
  for (int i = 0; i < 1000; ++i)
    sum += 1.0; // each of them is half a unit in the last place
  CHECK(static_cast<double>(sum) == 1e16 + 1000);
  sum += -1e16;
  CHECK(static_cast<double>(sum) == 1000);

  tc_long_sum parts[4] = {tc_long_sum(1e16), tc_long_sum(1.0), tc_long_sum(-1e16),
                          tc_long_sum(0.25)};
  CHECK(static_cast<double>(tc_merge<tc_sum>(parts)) == 1.25);

  constexpr double infinity = std::numeric_limits<double>::infinity();
  tc_long_sum large(1.0);
  large += infinity;
  large += 1.0;
  CHECK(static_cast<double>(large) == infinity);
  large += -infinity;
  CHECK(std::isnan(static_cast<double>(large)));
  tc_long_sum beyond(std::numeric_limits<double>::max());
  beyond += std::numeric_limits<double>::max();
  CHECK(static_cast<double>(beyond) == infinity);
}

TEST_CASE("quotients by the inverse that a launch gives are those of divisions") {
  constexpr long long kMost = (1ll << 31) - 1, kOne = 1ll << 62;
  long long wrong = 0;
  const auto check = [&](long long divisor) {
    const long long inverse = kOne / divisor + 1;
    for (long long multiple = 0; multiple <= kMost; multiple += divisor * (kMost / divisor / 7 + 1))
      for (long long n = multiple - 1; n <= multiple + 1; ++n)
        if (n >= 0 && n <= kMost)
          wrong += tc_quotient(n, divisor, inverse) != n / divisor;
    wrong += tc_quotient(kMost, divisor, inverse) != kMost / divisor;
  };
  for (long long divisor = 1; divisor < 5000; ++divisor)
    check(divisor);
  for (int bit = 1; bit < 31; ++bit)
    for (long long near = -2; near <= 2; ++near)
      if ((1ll << bit) + near > 0)
        check((1ll << bit) + near);
  check(kMost);
  CHECK(wrong == 0);
  CHECK(tc_quotient(1ll << 40, 3, 0) == (1ll << 40) / 3); // what does not fit is divided
}

TEST_CASE("ordered comparisons and signs of NaN are false and 0") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE((tc_ge(nan, 0.0f) || tc_gt(nan, 0.0f) || tc_le(nan, 0.0f) || tc_lt(nan, 0.0f)));
  CHECK_FALSE((tc_ge(0.0, double{nan}) || tc_lt(0.0, double{nan})));
  CHECK((tc_ge(0.0f, -0.0f) && tc_le(-0.0f, 0.0f) && tc_gt(1.0, 0.5) && tc_lt(0.5, 1.0)));
  CHECK(tc_sign(nan) == 0.0f);
  CHECK(tc_sign(-2.0) == -1.0);
}

TEST_CASE("sums of exponentials by runs, elements and parts are what two walks give") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  // The sum of exp(x - m), m the maximum, or 0 where that is infinite: twice in a row of eight.
  const auto check = [&](const float(&x)[8], float max, float sum) {
    using Sum = tc_exp_sum<float>;
    const float first[4] = {x[0], x[1], x[2], x[3]}, last[4] = {x[4], x[5], x[6], x[7]};
    const Sum none = tc_online_softmax::identity<Sum>();
    const Sum runs = tc_online_softmax::take_run(tc_online_softmax::take_run(none, first), last);
    Sum elements = none;
    for (const float each : x)
      elements = tc_online_softmax::take(elements, each);
    const Sum parts = tc_online_softmax::apply(tc_online_softmax::take_run(none, first),
                                               tc_online_softmax::take_run(none, last));
    for (const Sum &got : {runs, elements, parts}) {
      const float from = std::isinf(got.max) ? 0 : got.max;
      const float result = got.sum * tc_exp(got.max - from);
      INFO(max << " " << got.max << " " << got.sum);
      CHECK((std::isnan(max) ? std::isnan(got.max) : got.max == max));
      CHECK((std::isnan(sum)   ? std::isnan(result)
             : std::isinf(sum) ? result == sum
                               : std::fabs(result - sum) < 1e-6f));
    }
  };
  check({0, -1, -2, -3, -4, -200, -infinity, 0}, 0, 2.571317f);
  check({-1e30f, 0, 1e4f, 1e4f, 2, 3, 1e4f - 1, 5}, 1e4f, 2.3678794f);
  check({-infinity, -infinity, -infinity, -infinity, -infinity, -infinity, -infinity, -infinity},
        -infinity, 0);
  check({-infinity, -infinity, -infinity, -infinity, 7, -infinity, -infinity, -infinity}, 7, 1);
  check({1, 2, infinity, 4, 1e4f, 6, 7, 8}, infinity, infinity);
  check({1e4f, 2, -infinity, 4, 5, 6, infinity, infinity}, infinity, infinity);
  check({1, 2, 3, nan, 5, infinity, -infinity, 8}, nan, nan);
}

TEST_CASE("quotients by one number are what a division gives") {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float numbers[] = {0.0f,  -0.0f, 1.0f,     -3.0f,     1e-40f, 1e-45f, -1e-39f,   1e-30f,
                           7e37f, 3e38f, infinity, -infinity, nan,    0.1f,   1234567.0f};
  for (const float x : numbers)
    for (const float d : numbers) {
      const float expected = x / d;
      for (const float got : {tc_divide(x, d, 1.0f / d), tc_quick_divide(x, d, 1.0f / d)}) {
        INFO(x << " / " << d << ": " << expected << ", " << got);
        if (std::isnan(expected))
          CHECK(std::isnan(got));
        else if (std::isinf(expected) || expected == 0)
          CHECK(got == expected);
        else
          CHECK(std::fabs(got - expected) <= 4e-7f * std::fabs(expected) + 1.5e-45f);
      }
    }
}
