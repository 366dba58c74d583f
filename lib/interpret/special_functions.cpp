// Special functions in long double, by other methods than the kernels' (tc_special.h): power and
// asymptotic series, quadrature, bisection. Slower, and one is held to the other. Those that
// oscillate stand in bessel_functions.cpp.
#include "interpret/special_functions.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace tsc::interpret {
namespace {

using Wide = long double;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr Wide kPi = 3.14159265358979323846264338327950288L;

double erfcx(double a) {
  if (a < 0) // as in PyTorch: the rounded square decides
    return 2 * std::exp(a * a) - erfcx(-a);
  const Wide x = a;
  if (x < 26)
    return static_cast<double>(std::exp(x * x) * std::erfc(x));
  Wide below = x; // x + (1/2) / (x + (2/2) / (x + ...))
  for (int k = 60; k > 0; --k)
    below = x + k / (2 * below);
  return static_cast<double>(1 / (below * std::sqrt(kPi)));
}

/// The root of a function that grows between two places.
template <class F> double root(Wide low, Wide high, const F &grows_beyond) {
  for (int step = 0; step < 80; ++step) {
    const Wide middle = (low + high) / 2;
    (grows_beyond(middle) ? high : low) = middle;
  }
  return static_cast<double>((low + high) / 2);
}

double erfinv(double y) {
  if (std::fabs(y) >= 1 || y == 0 || std::isnan(y))
    return std::fabs(y) == 1 ? std::copysign(kInfinity, y) : y == 0 ? y : kNan;
  const Wide size = std::fabs(static_cast<Wide>(y)), rest = 1 - size;
  const double x = root(0, size < 0.5L ? size : 7, [&](Wide t) {
    return size < 0.5L ? std::erf(t) > size : std::erfc(t) < rest;
  });
  return std::copysign(x, y);
}

double ndtri(double share) {
  if (share == 0 || share == 1)
    return share == 0 ? -kInfinity : kInfinity;
  if (!(share > 0 && share < 1))
    return kNan;
  if (share == 0.5)
    return 0;
  const Wide lower = share < 0.5 ? static_cast<Wide>(share) : 1 - static_cast<Wide>(share);
  const double x =
      root(-40, 0, [&](Wide t) { return std::erfc(-t / std::sqrt(2.0L)) > 2 * lower; });
  return share < 0.5 ? x : -x;
}

/// exp(-|x|) I(x) of order 0 or 1: the power series, of positive terms; far out Hankel's.
double scaled_bessel_i(int order, double a) {
  const Wide x = std::fabs(static_cast<Wide>(a));
  Wide sum = 0, term = order == 0 ? 1 : x / 2;
  if (x < 60) {
    for (int k = 1; term > sum * 1e-20L; ++k) {
      sum += term;
      term *= x * x / (4 * k * (k + order));
    }
    sum *= std::exp(-x);
  } else {
    term = 1;
    for (int k = 1; k < 40; ++k) {
      sum += term;
      term *= -(4 * order - (2 * k - 1) * (2 * k - 1)) / (k * 8 * x);
    }
    sum /= std::sqrt(2 * kPi * x);
  }
  const auto value = static_cast<double>(sum);
  return order == 1 && a < 0 ? -value : value;
}

double bessel_i(int order, double a) { // NaN at infinities, as in PyTorch
  return std::exp(std::fabs(a)) * scaled_bessel_i(order, a);
}

/// exp(x) K(x): the integral of exp(-x (cosh t - 1)) cosh(order t) over t >= 0.
Wide scaled_bessel_k_integral(Wide order, Wide x) {
  const Wide step = std::min(0.0625L, 0.25L / std::sqrt(x)); // the width for large x is 1 / sqrt(x)
  Wide sum = 0.5L;
  for (int i = 1;; ++i) {
    const Wide t = i * step, sine = std::sinh(t / 2);
    const Wide term = std::exp(-2 * x * sine * sine) * std::cosh(order * t);
    sum += term;
    if (term < sum * 1e-21L)
      return sum * step;
  }
}
double bessel_k(Wide order, double x, bool scaled) {
  if (x == 0)
    return kInfinity;
  if (x < 0 || std::isnan(x))
    return kNan;
  if (std::isinf(x))
    return 0;
  const Wide value = scaled_bessel_k_integral(order, x);
  return static_cast<double>(scaled ? value : value * std::exp(-static_cast<Wide>(x)));
}

/// To the terms that PyTorch takes, in T: its digits are those of the sum, and poles are what the
/// rounded sine makes of them.
template <class T> double trigamma(double of) {
  T x = static_cast<T>(of), result = 0;
  const T pi = static_cast<T>(kPi);
  const bool reflected = x < T(0.5);
  if (reflected) {
    const T sine = std::sin(pi * x);
    result = -(pi * pi) / (sine * sine);
    x = 1 - x;
  }
  for (int i = 0; i < 6; ++i, x += 1)
    result += 1 / (x * x);
  const T z = 1 / (x * x);
  const T series = z * (T(1.0 / 6) - z * (T(1.0 / 30) - z * T(1.0 / 42)));
  result += (1 + 1 / (2 * x) + series) / x;
  return reflected ? -result : result;
}

double zeta(double x, double q) {
  if (x == 1)
    return kInfinity;
  if (x < 1)
    return kNan;
  if (q <= 0 && q == std::floor(q))
    return kInfinity;
  if (q <= 0 && x != std::floor(x))
    return kNan;
  const Wide s = x;
  Wide sum = 0, a = q;
  for (int i = 0; i < 16 || a < 16; ++i, a += 1) {
    const Wide term = std::pow(a, -s);
    sum += term;
    if (i > 16 && std::fabs(term) < std::fabs(sum) * 1e-22L)
      return static_cast<double>(sum);
  }
  if (static_cast<double>(sum) == 0 && x > 2.5e13) // PyTorch's rising product overflows
    return kNan;
  sum += std::pow(a, 1 - s) / (s - 1) + std::pow(a, -s) / 2;
  constexpr std::array<Wide, 8> kBernoulli = {1 / 6.0L,  -1 / 30.0L,     1 / 42.0L, -1 / 30.0L,
                                              5 / 66.0L, -691 / 2730.0L, 7 / 6.0L,  -3617 / 510.0L};
  Wide factor = s * std::pow(a, -s - 1) / 2; // rising product over (2k)! and a's power
  for (size_t k = 0; k < kBernoulli.size() && factor > 0; ++k) {
    sum += kBernoulli[k] * factor;
    const auto n = static_cast<Wide>(2 * k + 2);
    factor *= (s + n - 1) * (s + n) / ((n + 1) * (n + 2) * a * a);
  }
  return static_cast<double>(sum);
}

/// x^a exp(-x) / gamma(a + 1); for large a the logarithms are taken apart before they are large.
Wide gamma_density(Wide a, Wide x) {
  if (a < 30)
    return std::exp(a * std::log(x) - x - std::lgamma(a + 1));
  const Wide share = (x - a) / a, z = 1 / (a * a);
  const Wide stirling =
      (1 - z * (1 / 30.0L - z * (1 / 105.0L - z * (1 / 140.0L - z / 99)))) / (12 * a);
  return std::exp(a * (std::log1p(share) - share) - stirling) / std::sqrt(2 * kPi * a);
}
/// Walks from x away from the mean, where the terms fall.
Wide gamma_share_below(Wide a, Wide x) {
  Wide term = 1, sum = 0;
  for (Wide k = 1; term > sum * 1e-22L; k += 1) {
    sum += term;
    term *= x / (a + k);
  }
  return gamma_density(a, x) * sum;
}
Wide gamma_share_above(Wide a, Wide x) { // the continued fraction, forwards
  Wide before = 0, last = 1, p_before = 1, q_before = x, p = x + 1, q = x * (x + 2 - a);
  Wide y = 1 - a, z = x + y + 1;
  last = p / q;
  for (int c = 1; c < 10'000'000 && std::fabs(last - before) > std::fabs(last) * 1e-20L; ++c) {
    y += 1;
    z += 2;
    const Wide p_next = p * z - p_before * y * c, q_next = q * z - q_before * y * c;
    p_before = p, q_before = q, p = p_next, q = q_next;
    if (std::fabs(p) > 1e1000L)
      p_before /= 1e1000L, q_before /= 1e1000L, p /= 1e1000L, q /= 1e1000L;
    if (q != 0)
      before = last, last = p / q;
  }
  return gamma_density(a, x) * a * last;
}
Wide gamma_share_above_near_zero(Wide a, Wide x) {
  Wide factor = 1, sum = 0;
  for (int n = 1; n < 60; ++n) {
    factor *= -x / n;
    sum += factor / (a + n);
  }
  Wide logarithm = std::lgamma(1 + a);
  if (a < 1e-3L) // Euler's number, zeta(2) / 2, zeta(3) / 3, zeta(4) / 4
    logarithm = a * (-0.577215664901532860606512090082402431L +
                     a * (0.822467033424113218236207583323012595L -
                          a * (0.400685634386531428466579387170483331L -
                               a * 0.270580808427784547879000924135291975L)));
  const Wide exponent = a * std::log(x) - logarithm;
  return -std::expm1(exponent) - std::exp(exponent) * a * sum;
}
/// The lower one of so large an a that one term beyond the normal distribution is enough.
Wide gamma_share_of_huge(Wide a, Wide x) {
  const Wide share = (x - a) / a, half = share - std::log1p(share);
  if (std::fabs(share) > 0.01L)
    return share > 0 ? 1 : 0;
  const Wide eta = std::copysign(std::sqrt(2 * half), share);
  const Wide skew = -1 / 3.0L + eta * (1 / 12.0L - eta * 2 / 135.0L);
  return std::erfc(-eta * std::sqrt(a / 2)) / 2 -
         std::exp(-a * half) * skew / std::sqrt(2 * kPi * a);
}
double gamma_share(double a, double x, bool lower) {
  const double none = lower ? 0 : 1, all = lower ? 1 : 0; // of the mass below x
  if (x < 0 || a < 0 || (std::isinf(a) && std::isinf(x)))
    return kNan;
  if (a == 0)
    return x > 0 ? all : kNan;
  if (x == 0 || std::isinf(a))
    return none;
  if (std::isinf(x))
    return all;
  if (std::isnan(a) || std::isnan(x))
    return kNan;
  if (a > 1e10) {
    const Wide below = gamma_share_of_huge(a, x);
    return static_cast<double>(lower ? below : 1 - below);
  }
  if (!lower && x < 1.5 && a < 1)
    return static_cast<double>(gamma_share_above_near_zero(a, x));
  if (x > a && x > 1.5) {
    const Wide above = gamma_share_above(a, x);
    return static_cast<double>(lower ? 1 - above : above);
  }
  const Wide below = gamma_share_below(a, x);
  return static_cast<double>(lower ? below : 1 - below);
}

// ---- polynomials, in the arithmetic of T: where a recurrence overflows is PyTorch's

template <class T> using Polynomial = T (*)(T x, int64_t n);

template <class T, class Step> T recurrence(int64_t n, T first, bool until_nan, const Step &step) {
  T before = 1, value = n == 0 ? T(1) : first;
  for (int64_t k = 1; k < n && !(until_nan && std::isnan(value)); ++k) {
    const T next = step(value, before, static_cast<T>(k));
    before = value;
    value = next;
  }
  return value;
}

/// The signs that all kinds have at 1 and -1.
template <class T> T at_one(T x, int64_t n) { return x > 0 || n % 2 == 0 ? T(1) : T(-1); }

template <class T> T chebyshev(T x, int64_t n, T first) {
  return recurrence(n, first, true, [x](T value, T before, T) { return (x + x) * value - before; });
}
template <class T> T chebyshev_t(T x, int64_t n) {
  if (std::fabs(x) == 1)
    return at_one(x, n);
  return n > 6 && std::fabs(x) < 1 ? std::cos(static_cast<T>(n) * std::acos(x))
                                   : chebyshev(x, n, x);
}
template <class T> T chebyshev_u(T x, int64_t n) {
  const T count = static_cast<T>(n + 1);
  if (std::fabs(x) == 1)
    return count * at_one(x, n);
  if (n <= 8 || !(std::fabs(x) < 1))
    return chebyshev(x, n, x + x);
  const T angle = std::acos(x), sine = std::sin(angle);
  return sine != 0 ? std::sin(count * angle) / sine : count * std::cos(count * angle) / x;
}
template <class T> T chebyshev_v(T x, int64_t n) {
  const T count = static_cast<T>(n + n + 1);
  if (std::fabs(x) == 1)
    return x > 0 ? T(1) : count * at_one(x, n);
  if (n <= 8 || !(std::fabs(x) < 1))
    return chebyshev(x, n, x + x - 1);
  const T angle = std::acos(x);
  if (std::sin(angle / 2) == 1)
    return n % 2 == 0 ? count : -count;
  return std::cos((static_cast<T>(n) + T(0.5)) * angle) / std::cos(angle / 2);
}
template <class T> T chebyshev_w(T x, int64_t n) {
  const T count = static_cast<T>(n + n + 1);
  if (std::fabs(x) == 1)
    return x > 0 ? count : at_one(x, n);
  if (n <= 8 || !(std::fabs(x) < 1))
    return chebyshev(x, n, x + x + 1);
  const T angle = std::acos(x);
  if (std::cos(angle / 2) == 1)
    return x > 0 ? count : at_one(x, n);
  return std::sin((static_cast<T>(n) + T(0.5)) * angle) / std::sin(angle / 2);
}
/// PyTorch's bound of the degree.
template <class T> int64_t highest_hermite() { return sizeof(T) == sizeof(float) ? 128 : 512; }
template <class T> T hermite_h(T x, int64_t n) {
  if (n > highest_hermite<T>())
    return static_cast<T>(kNan);
  return recurrence(n, x + x, false,
                    [x](T value, T before, T k) { return (x + x) * value - (k + k) * before; });
}
template <class T> T hermite_he(T x, int64_t n) {
  if (n > highest_hermite<T>())
    return static_cast<T>(kNan);
  return recurrence(n, x, false, [x](T value, T before, T k) { return x * value - k * before; });
}
template <class T> T laguerre(T x, int64_t n) {
  if (x == 0)
    return 1;
  return recurrence(n, 1 - x, true, [x](T value, T before, T k) {
    return ((k + k + (1 - x)) * value - k * before) / (k + 1);
  });
}
template <class T> T legendre(T x, int64_t n) {
  if (std::fabs(x) == 1)
    return at_one(x, n);
  return recurrence(n, x, true, [x](T value, T before, T k) {
    return ((k + k + 1) * x * value - k * before) / (k + 1);
  });
}

template <class T> Polynomial<T> polynomial(Op op) {
  switch (op) {
  case Op::chebyshev_polynomial_t:
    return chebyshev_t<T>;
  case Op::chebyshev_polynomial_u:
    return chebyshev_u<T>;
  case Op::chebyshev_polynomial_v:
    return chebyshev_v<T>;
  case Op::chebyshev_polynomial_w:
    return chebyshev_w<T>;
  case Op::hermite_polynomial_h:
    return hermite_h<T>;
  case Op::hermite_polynomial_he:
    return hermite_he<T>;
  case Op::laguerre_polynomial_l:
    return laguerre<T>;
  case Op::legendre_polynomial_p:
    return legendre<T>;
  default:
    return nullptr;
  }
}

template <Op op, class T> double polynomial_value(double x, double n) {
  const bool is_degree = n > -1 && n < 9e18;
  return is_degree ? polynomial<T>(op)(static_cast<T>(x), static_cast<int64_t>(n)) : 0.0;
}
template <Op op> BinaryFunction polynomial_of(DType dtype) {
  return dtype == DType::f64 ? polynomial_value<op, double> : polynomial_value<op, float>;
}

template <bool second, int order> UnaryFunction bessel_of(DType dtype) {
  if (dtype == DType::f64)
    return [](double x) {
      return second ? bessel_y(DType::f64, order, x) : bessel_j(DType::f64, order, x);
    };
  return [](double x) {
    return second ? bessel_y(DType::f32, order, x) : bessel_j(DType::f32, order, x);
  };
}

} // namespace

UnaryFunction special_unary(Op op, DType dtype) {
  const bool is_double = dtype == DType::f64;
  switch (op) {
  case Op::airy_ai:
    return is_double ? [](double x) { return airy_ai(DType::f64, x); }
                     : [](double x) { return airy_ai(DType::f32, x); };
  case Op::bessel_j0:
    return bessel_of<false, 0>(dtype);
  case Op::bessel_j1:
    return bessel_of<false, 1>(dtype);
  case Op::bessel_y0:
    return bessel_of<true, 0>(dtype);
  case Op::bessel_y1:
    return bessel_of<true, 1>(dtype);
  case Op::erfcx:
    return erfcx;
  case Op::erfinv:
    return erfinv;
  case Op::modified_bessel_i0:
    return [](double x) { return bessel_i(0, x); };
  case Op::modified_bessel_i1:
    return [](double x) { return bessel_i(1, x); };
  case Op::modified_bessel_k0:
    return [](double x) { return bessel_k(0, x, false); };
  case Op::modified_bessel_k1:
    return [](double x) { return bessel_k(1, x, false); };
  case Op::ndtri:
    return ndtri;
  case Op::scaled_modified_bessel_i0:
    return [](double x) { return scaled_bessel_i(0, x); };
  case Op::scaled_modified_bessel_i1:
    return [](double x) { return scaled_bessel_i(1, x); };
  case Op::scaled_modified_bessel_k0:
    return [](double x) { return bessel_k(0, x, true); };
  case Op::scaled_modified_bessel_k1:
    return [](double x) { return bessel_k(1, x, true); };
  case Op::trigamma:
    return is_double ? trigamma<double> : trigamma<float>;
  default:
    return nullptr;
  }
}

BinaryFunction special_binary(Op op, DType dtype) {
  switch (op) {
  case Op::igamma:
    return [](double a, double x) { return gamma_share(a, x, true); };
  case Op::igammac:
    return [](double a, double x) { return gamma_share(a, x, false); };
  case Op::zeta:
    return zeta;
  case Op::chebyshev_polynomial_t:
    return polynomial_of<Op::chebyshev_polynomial_t>(dtype);
  case Op::chebyshev_polynomial_u:
    return polynomial_of<Op::chebyshev_polynomial_u>(dtype);
  case Op::chebyshev_polynomial_v:
    return polynomial_of<Op::chebyshev_polynomial_v>(dtype);
  case Op::chebyshev_polynomial_w:
    return polynomial_of<Op::chebyshev_polynomial_w>(dtype);
  case Op::hermite_polynomial_h:
    return polynomial_of<Op::hermite_polynomial_h>(dtype);
  case Op::hermite_polynomial_he:
    return polynomial_of<Op::hermite_polynomial_he>(dtype);
  case Op::laguerre_polynomial_l:
    return polynomial_of<Op::laguerre_polynomial_l>(dtype);
  case Op::legendre_polynomial_p:
    return polynomial_of<Op::legendre_polynomial_p>(dtype);
  default:
    return nullptr;
  }
}

} // namespace tsc::interpret
