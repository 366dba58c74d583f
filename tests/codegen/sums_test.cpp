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

TEST_CASE("ordered comparisons and signs of NaN are false and 0") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK_FALSE((tc_ge(nan, 0.0f) || tc_gt(nan, 0.0f) || tc_le(nan, 0.0f) || tc_lt(nan, 0.0f)));
  CHECK_FALSE((tc_ge(0.0, double{nan}) || tc_lt(0.0, double{nan})));
  CHECK((tc_ge(0.0f, -0.0f) && tc_le(-0.0f, 0.0f) && tc_gt(1.0, 0.5) && tc_lt(0.5, 1.0)));
  CHECK(tc_sign(nan) == 0.0f);
  CHECK(tc_sign(-2.0) == -1.0);
}
