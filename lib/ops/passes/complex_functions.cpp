// Functions of one complex number, and powers. x + iy throughout.
#include "ops/passes/complex_arithmetic.h"

#include <array>
#include <cmath>
#include <numbers>

namespace tsc::ops::pairs {
namespace {

Pair times_i(const RealMath &math, const Pair &a) { return {math.negate(a.im), a.re}; }
Pair over_i(const RealMath &math, const Pair &a) { return {a.im, math.negate(a.re)}; }

Pair negative(const RealMath &math, const Pair &a) {
  return {math.negate(a.re), math.negate(a.im)};
}

Pair reciprocal(const RealMath &math, const Pair &a) { return divide(math, {1.0, 0.0}, a); }

Pair square_root(const RealMath &math, const Pair &a) {
  // The larger part first; of what is large, a quarter's root, doubled.
  const Argument x = math.call("abs", a.re), y = math.call("abs", a.im);
  const Argument is_large = math.compare("gt", math.call("maximum", x, y), math.largest() / 8);
  const Argument scale = math.where(is_large, 0.25, 1.0);
  const Argument sum = math.add(math.mul(x, scale),
                                math.call("hypot", math.mul(a.re, scale), math.mul(a.im, scale)));
  const Argument scaled = math.call("sqrt", math.mul(sum, 0.5));
  const Argument major = math.mul(scaled, math.where(is_large, 2.0, 1.0));
  const Argument is_zero = math.compare("eq", major, 0.0);
  const Argument minor =
      math.where(is_zero, math.mul(y, 0.0), math.div(math.mul(y, 0.5), major)); // 0, or NaN's
  const Argument right = math.compare("ge", a.re, 0.0);
  const Argument re = math.where(right, major, minor);
  const Argument im = math.call("copysign", math.where(right, minor, major), a.im);
  const Argument infinite = math.call("isinf", a.im);
  return {math.where(infinite, INFINITY, re), math.where(infinite, a.im, im)};
}

Pair reciprocal_root(const RealMath &math, const Pair &a) {
  return reciprocal(math, square_root(math, a));
}

Pair exponential(const RealMath &math, const Pair &a) {
  const Argument size = math.call("exp", a.re);
  const Argument re = math.mul(size, math.call("cos", a.im)),
                 im = math.mul(size, math.call("sin", a.im));
  // 0 has no angle: where it is not finite, 0 all the same. What is real stays so: infinity times
  // 0.
  const Argument vanishes =
      math.both(math.compare("eq", a.re, -INFINITY), math.call("isnan", math.as_tensor(re)));
  const Argument is_real = math.compare("eq", a.im, 0.0);
  return {math.where(vanishes, 0.0, re), math.where(vanishes, 0.0, math.where(is_real, a.im, im))};
}

Pair exponential_less_one(const RealMath &math, const Pair &a) {
  const Argument half = math.call("sin", math.mul(a.im, 0.5));
  const Argument re = math.sub(math.mul(math.call("expm1", a.re), math.call("cos", a.im)),
                               math.mul(math.mul(half, half), 2.0));
  return {re, math.mul(math.call("exp", a.re), math.call("sin", a.im))};
}

Pair scaled(const RealMath &math, const Pair &a, double factor) {
  return {math.mul(a.re, factor), math.mul(a.im, factor)};
}

Pair exponential_of_2(const RealMath &math, const Pair &a) {
  return exponential(math, scaled(math, a, std::numbers::ln2));
}

/// log |z|: near 1 by what is missing from 1, which hypot has rounded away.
Argument log_magnitude(const RealMath &math, const Pair &a) {
  const Argument size = magnitude(math, a);
  const Argument x = math.call("abs", a.re), y = math.call("abs", a.im);
  const Argument large = math.call("maximum", x, y), small = math.call("minimum", x, y);
  const Argument excess =
      math.add(math.mul(math.sub(large, 1.0), math.add(large, 1.0)), math.mul(small, small));
  const Argument near = math.both(math.compare("gt", size, 0.5), math.compare("lt", size, 2.0));
  return math.where(near, math.mul(math.call("log1p", math.where(near, excess, 0.0)), 0.5),
                    math.call("log", size));
}

Pair logarithm(const RealMath &math, const Pair &a) {
  return {log_magnitude(math, a), angle(math, a)};
}
Pair logarithm_2(const RealMath &math, const Pair &a) {
  return scaled(math, logarithm(math, a), 1 / std::numbers::ln2);
}
Pair logarithm_10(const RealMath &math, const Pair &a) {
  return scaled(math, logarithm(math, a), 1 / std::numbers::ln10);
}

Pair logarithm_1p(const RealMath &math, const Pair &a) {
  const Argument next = math.add(a.re, 1.0), turn = math.call("atan2", a.im, next);
  const Argument near = math.compare("lt", magnitude(math, a), 0.5);
  const Argument excess =
      math.add(math.mul(a.re, math.add(a.re, 2.0)), math.mul(a.im, a.im)); // |1 + z|^2 - 1
  const Argument exact = math.mul(math.call("log1p", math.where(near, excess, 0.0)), 0.5);
  return {math.where(near, exact, log_magnitude(math, {next, a.im})), turn};
}

/// a * b where b is 0 whatever a is.
Argument times_zero(const RealMath &math, const Argument &a, const Argument &b,
                    const Argument &of) {
  const Argument signed_zero = math.mul(b, math.call("copysign", 1.0, a));
  return math.where(math.compare("eq", of, 0.0), signed_zero, math.mul(a, b));
}

Pair hyperbolic_sine(const RealMath &math, const Pair &a) {
  return {math.mul(math.call("sinh", a.re), math.call("cos", a.im)),
          times_zero(math, math.call("cosh", a.re), math.call("sin", a.im), a.im)};
}
Pair hyperbolic_cosine(const RealMath &math, const Pair &a) {
  return {math.mul(math.call("cosh", a.re), math.call("cos", a.im)),
          times_zero(math, math.call("sinh", a.re), math.call("sin", a.im), a.im)};
}
Pair sine(const RealMath &math, const Pair &a) {
  return over_i(math, hyperbolic_sine(math, times_i(math, a)));
}
Pair cosine(const RealMath &math, const Pair &a) {
  return hyperbolic_cosine(math, times_i(math, a));
}

/// Kahan's; far out 1 and what is left of the imaginary part.
Pair hyperbolic_tangent(const RealMath &math, const Pair &a) {
  const double far = math.dtype() == DType::f64 ? 22 : 11;
  const Argument size = math.call("abs", a.re);
  const Argument is_far = math.compare("ge", size, far);
  const Argument near_x = math.where(is_far, 0.0, a.re);
  const Argument tangent = math.call("tan", a.im), sine_of_x = math.call("sinh", near_x);
  const Argument beta = math.add(math.mul(tangent, tangent), 1.0);
  const Argument root = math.call("sqrt", math.add(math.mul(sine_of_x, sine_of_x), 1.0)); // cosh x
  const Argument below = math.add(math.mul(beta, math.mul(sine_of_x, sine_of_x)), 1.0);
  const Argument re = math.div(math.mul(math.mul(beta, root), sine_of_x), below);
  const Argument im = math.div(tangent, below);
  const Argument fading = math.call("exp", math.negate(size));
  const Argument rest =
      math.mul(math.mul(math.mul(math.call("sin", a.im), math.call("cos", a.im)), 4.0),
               math.mul(fading, fading));
  return {math.where(is_far, math.call("copysign", 1.0, a.re), re), math.where(is_far, rest, im)};
}
Pair tangent(const RealMath &math, const Pair &a) {
  return over_i(math, hyperbolic_tangent(math, times_i(math, a)));
}

// The inverse functions as Kahan gives them ("Branch cuts for complex elementary functions").

Pair root_of_1_minus(const RealMath &math, const Pair &a) {
  return square_root(math, {math.sub(1.0, a.re), math.negate(a.im)});
}
Pair root_of_1_plus(const RealMath &math, const Pair &a) {
  return square_root(math, {math.add(a.re, 1.0), a.im});
}
/// Parts of conj(a) * b.
Argument real_of_turned(const RealMath &math, const Pair &a, const Pair &b) {
  return math.add(math.mul(a.re, b.re), math.mul(a.im, b.im));
}
Argument imaginary_of_turned(const RealMath &math, const Pair &a, const Pair &b) {
  return math.sub(math.mul(a.re, b.im), math.mul(a.im, b.re));
}

Pair arc_sine(const RealMath &math, const Pair &a) {
  const Pair minus = root_of_1_minus(math, a), plus = root_of_1_plus(math, a);
  const Argument product = math.sub(math.mul(minus.re, plus.re), math.mul(minus.im, plus.im));
  return {math.call("atan2", a.re, product),
          math.call("asinh", imaginary_of_turned(math, minus, plus))};
}
Pair arc_cosine(const RealMath &math, const Pair &a) {
  const Pair minus = root_of_1_minus(math, a), plus = root_of_1_plus(math, a);
  return {math.mul(math.call("atan2", minus.re, plus.re), 2.0),
          math.call("asinh", imaginary_of_turned(math, plus, minus))};
}
Pair inverse_sinh(const RealMath &math, const Pair &a) {
  return over_i(math, arc_sine(math, times_i(math, a)));
}
Pair inverse_cosh(const RealMath &math, const Pair &a) {
  const Pair minus = square_root(math, {math.sub(a.re, 1.0), a.im}), plus = root_of_1_plus(math, a);
  return {math.call("asinh", real_of_turned(math, minus, plus)),
          math.mul(math.call("atan2", minus.im, plus.re), 2.0)};
}
Pair inverse_tanh(const RealMath &math, const Pair &a) {
  const Argument x = math.call("abs", a.re);
  const Argument rest = math.sub(1.0, x), squared = math.mul(a.im, a.im);
  const Argument ratio = math.div(math.mul(x, 4.0), math.add(math.mul(rest, rest), squared));
  const Argument cosine_part = math.sub(math.mul(rest, math.add(x, 1.0)), squared);
  const Argument size = math.mul(math.call("log1p", ratio), 0.25);
  return {math.call("copysign", size, a.re),
          math.mul(math.call("atan2", math.mul(a.im, 2.0), cosine_part), 0.5)};
}
Pair arc_tangent(const RealMath &math, const Pair &a) {
  return over_i(math, inverse_tanh(math, times_i(math, a)));
}

Pair logistic(const RealMath &math, const Pair &a) {
  return reciprocal(math, add(math, exponential(math, negative(math, a)), {1.0, 0.0}));
}

Pair direction(const RealMath &math, const Pair &a) {
  const Argument size = magnitude(math, a);
  const Argument is_zero = math.compare("eq", size, 0.0);
  return {math.where(is_zero, 0.0, math.div(a.re, size)),
          math.where(is_zero, 0.0, math.div(a.im, size))};
}

Pair power_in_its_dtype(const RealMath &math, const Pair &base, const Pair &exponent) {
  const Pair log = logarithm(math, base);
  const Pair result = exponential(math, multiply(math, exponent, log));
  // 0 to a power with a positive real part is 0, to the power 0 it is 1.
  const Argument base_is_zero =
      math.both(math.compare("eq", base.re, 0.0), math.compare("eq", base.im, 0.0));
  const Argument vanishes = math.both(base_is_zero, math.compare("gt", exponent.re, 0.0));
  const Argument is_one =
      math.both(math.compare("eq", exponent.re, 0.0), math.compare("eq", exponent.im, 0.0));
  const Pair kept = choose(math, vanishes, {0.0, 0.0}, result);
  return choose(math, is_one, {1.0, 0.0}, kept);
}

struct Named {
  std::string_view name;
  Function function;
};
constexpr std::array kFunctions = {Named{"neg", negative},
                                   Named{"reciprocal", reciprocal},
                                   Named{"sqrt", square_root},
                                   Named{"rsqrt", reciprocal_root},
                                   Named{"exp", exponential},
                                   Named{"exp2", exponential_of_2},
                                   Named{"expm1", exponential_less_one},
                                   Named{"log", logarithm},
                                   Named{"log2", logarithm_2},
                                   Named{"log10", logarithm_10},
                                   Named{"log1p", logarithm_1p},
                                   Named{"sin", sine},
                                   Named{"cos", cosine},
                                   Named{"tan", tangent},
                                   Named{"sinh", hyperbolic_sine},
                                   Named{"cosh", hyperbolic_cosine},
                                   Named{"tanh", hyperbolic_tangent},
                                   Named{"asin", arc_sine},
                                   Named{"acos", arc_cosine},
                                   Named{"atan", arc_tangent},
                                   Named{"asinh", inverse_sinh},
                                   Named{"acosh", inverse_cosh},
                                   Named{"atanh", inverse_tanh},
                                   Named{"sigmoid", logistic},
                                   Named{"sgn", direction}};

} // namespace

Function find_function(std::string_view name) {
  for (const Named &known : kFunctions)
    if (known.name == name)
      return known.function;
  return nullptr;
}

/// What is exponentiated may be large, its rounding then matters: in f64.
Pair power(const RealMath &math, const Pair &base, const Pair &exponent) {
  if (math.dtype() == DType::f64)
    return power_in_its_dtype(math, base, exponent);
  const RealMath wide = math.in(DType::f64);
  const Pair result = power_in_its_dtype(wide, wide.converted(base), wide.converted(exponent));
  return math.converted(result);
}

Pair power(const RealMath &math, const Pair &base, std::complex<double> exponent) {
  if (exponent.imag() == 0) {
    const double n = exponent.real();
    if (n == 0)
      return {1.0, 0.0};
    if (n == 1)
      return base;
    if (n == 0.5)
      return square_root(math, base);
    if (n == -0.5)
      return reciprocal_root(math, base);
    if (n == -1)
      return reciprocal(math, base);
    const Pair square = n == 2 || n == -2 || n == 3 ? multiply(math, base, base) : base;
    if (n == 2)
      return square;
    if (n == 3)
      return multiply(math, square, base);
    if (n == -2)
      return reciprocal(math, square);
  }
  return power(math, base, Pair{exponent.real(), exponent.imag()});
}

} // namespace tsc::ops::pairs
