// Special functions, one per row of ir/opcodes.def whose cost is "series", with the special values
// of PyTorch 2.11 on a CPU. Only kernels that compute one include it.
//
// In T where PyTorch computes in T: then a float overflows where PyTorch's does. In double where
// PyTorch does, or where floats would lose digits. Methods: Chebyshev sums and S. Moshier's Cephes
// library (error functions), Euler and Maclaurin's sum (zeta), series, continued fraction and
// N. Temme's expansion (DLMF 8.7.1, 8.9.2, 8.12) of the incomplete gamma functions.
#pragma once

#include "tc_bessel.h"
#include "tc_polynomials.h"

// ---- error functions

/// exp(x^2) erfc(x). For x >= 0 a Chebyshev sum of (1 + 2x) erfcx(x) over (x - 3.75) / (x + 3.75)
/// (M. Shepherd and J. Laframboise 1981), fitted to 50 digits.
template <class T> TC_FN T tc_erfcx_of(T x) {
  if (x < T(-26.7))
    return tc_infinity<T>();
  const T t = tc_abs(x);
  const T place = t > T(1e30) ? T(2) : T(2) * ((t - T(3.75)) / (t + T(3.75)));
  const T scaled = tc_clenshaw(
      place, -2.2370566594359995e-18, 5.068148904796111e-17, 7.418235256624044e-17,
      -1.2507950530688648e-15, -1.864562880419313e-15, 3.3478119482868056e-14, 3.25254814814874e-14,
      -9.65469674843344e-13, 1.9455868545777347e-13, 2.86879501093067e-11, -6.318088340886684e-11,
      -7.754400208831351e-10, 4.521959811218287e-09, 1.076499946567091e-08, -2.1886401049234397e-07,
      7.74038306619849e-07, 4.13902798607301e-06, -6.916973302501207e-05, 0.0004907758365258086,
      -0.002413163540417608, 0.009074997670705265, -0.026658668435305753, 0.05920993999819189,
      -0.08424913336651792, -0.004590054580646478, 2.3551578691348034);
  const T value = scaled / (T(1) + T(2) * t);
  return x < T(0) ? T(2) * tc_exp(x * x) - value : value;
}
TC_FN float tc_erfcx(float x) { return tc_erfcx_of(x); }
TC_FN double tc_erfcx(double x) { return tc_erfcx_of(x); }

/// A rational first guess (from Matlab's erfinv, as in PyTorch), then Newton's steps: on erfc
/// where that is small.
TC_FN double tc_erfinv(double y) {
  const double size = tc_abs(y);
  if (size > 1.0)
    return tc_not_a_number<double>();
  if (size == 1.0)
    return tc_copysign(tc_infinity<double>(), y);
  const bool central = size <= 0.7;
  double x;
  if (central) {
    const double z = y * y;
    x = size * tc_horner(z, -0.140543331, 0.914624893, -1.645349621, 0.886226899) /
        tc_horner(z, 0.012229801, -0.329097515, 1.442710462, -2.118377725, 1.0);
  } else {
    const double z = tc_sqrt(-tc_log((1.0 - size) / 2.0));
    x = tc_horner(z, 1.641345311, 3.429567803, -1.624906493, -1.970840454) /
        tc_horner(z, 1.637067800, 3.543889200, 1.0);
  }
  constexpr double kSlope = 1.12837916709551257390; // 2 / sqrt(pi)
  for (int step = 0; step < (central ? 2 : 3); ++step) {
    const double above = central ? tc_erf(x) - size : (1.0 - size) - tc_erfc(x);
    x -= above / (kSlope * tc_exp(-x * x));
  }
  return tc_copysign(x, y);
}
#ifdef TC_DEVICE
TC_FN float tc_erfinv(float y) { return erfinvf(y); }
#else
TC_FN float tc_erfinv(float y) { return static_cast<float>(tc_erfinv(static_cast<double>(y))); }
#endif

/// The x below which a normal distribution has the share `share`.
template <class T> TC_FN T tc_ndtri_of(T share) {
  constexpr double kTail = 0.13533528323661269189; // exp(-2)
  if (share == T(0) || share == T(1))
    return share == T(0) ? -tc_infinity<T>() : tc_infinity<T>();
  if (!(share > T(0) && share < T(1)))
    return tc_not_a_number<T>();
  const bool upper = share > T(1) - T(kTail);
  T y = upper ? T(1) - share : share;
  if (y > T(kTail)) {
    y -= T(0.5);
    const T square = y * y;
    const T p = tc_horner(square, -59.96335010141079, 98.00107541859997, -56.67628574690703,
                          13.931260938727968, -1.2391658386738125);
    const T q = tc_horner(square, 1.0, 1.9544885833814176, 4.676279128988815, 86.36024213908905,
                          -225.46268785411937, 200.26021238006066, -82.03722561683334,
                          15.90562251262117, -1.1833162112133);
    return (y + y * (square * p / q)) * T(2.50662827463100050242);
  }
  const T x = tc_sqrt(T(-2) * tc_log(y)), z = T(1) / x;
  T p, q;
  if (x < T(8)) {
    p = tc_horner(z, 4.0554489230596245, 31.525109459989388, 57.16281922464213, 44.08050738932008,
                  14.684956192885803, 2.1866330685079025, -0.1402560791713545, -0.03504246268278482,
                  -0.0008574567851546854);
    q = tc_horner(z, 1.0, 15.779988325646675, 45.39076351288792, 41.3172038254672,
                  15.04253856929075, 2.504649462083094, -0.14218292285478779, -0.03808064076915783,
                  -0.0009332594808954574);
  } else {
    p = tc_horner(z, 3.2377489177694603, 6.915228890689842, 3.9388102529247444, 1.3330346081580755,
                  0.20148538954917908, 0.012371663481782003, 0.00030158155350823543,
                  2.6580697468673755e-06, 6.239745391849833e-09);
    q = tc_horner(z, 1.0, 6.02427039364742, 3.6798356385616087, 1.3770209948908132,
                  0.21623699359449663, 0.013420400608854318, 0.00032801446468212774,
                  2.8924786474538068e-06, 6.790194080099813e-09);
  }
  const T distance = x - tc_log(x) / x - z * p / q;
  return upper ? distance : -distance;
}
TC_FN float tc_ndtri(float share) { return tc_ndtri_of(share); }
TC_FN double tc_ndtri(double share) { return tc_ndtri_of(share); }

// ---- gamma functions and their kin

/// The derivative of digamma, to the terms that PyTorch takes: six steps, three of the series.
template <class T> TC_FN T tc_trigamma_of(T x) {
  constexpr double kPi = 3.14159265358979323846;
  T result = T(0);
  const bool reflected = x < T(0.5);
  if (reflected) {
    const T sine = tc_sin(T(kPi) * x);
    result = T(-kPi) * T(kPi) / (sine * sine);
    x = T(1) - x;
  }
  for (int i = 0; i < 6; ++i) {
    result += T(1) / (x * x);
    x += T(1);
  }
  const T z = T(1) / (x * x);
  result += (T(1) + T(1) / (T(2) * x) + z * (T(1.0 / 6) - z * (T(1.0 / 30) - z * T(1.0 / 42)))) / x;
  return reflected ? -result : result;
}
TC_SPECIAL_1(trigamma, tc_trigamma_of(x))

/// The sum of (q + k)^-x over k >= 0 (Hurwitz). Infinite where x is 1 or a term is; NaN for x < 1,
/// and for negative q where powers have no real value.
/// `direct`: so many terms at least, and up to that number, are added up one by one; `enough`: what
/// is less than this part of the sum is left out.
TC_FN double tc_zeta_to(double x, double q, double direct, double enough) {
  if (x == 1.0)
    return tc_infinity<double>();
  if (x < 1.0)
    return tc_not_a_number<double>();
  if (q <= 0.0) {
    if (q == tc_floor(q))
      return tc_infinity<double>();
    if (x != tc_floor(x))
      return tc_not_a_number<double>();
  }
  double a = q, term = 0.0, sum = tc_pow(q, -x);
  for (double i = 0; i < direct || a <= direct; i += 1.0) {
    a += 1.0;
    term = tc_pow(a, -x);
    sum += term;
    if (-enough * sum < term && term < enough * sum)
      return sum;
  }
  sum += term * a / (x - 1.0) - 0.5 * term;
  // B(2k) / (2k)! times the odd derivatives at a; each factor's B(2k) / (2k)! over the last one's.
  double rising = x, power = term / a, k = 0.0;
  const auto add = [&](double bernoulli) {
    const double part = rising * power * bernoulli;
    sum += part;
    rising *= (x + k + 1.0) * (x + k + 2.0);
    power /= a * a;
    k += 2.0;
    return tc_abs(part / sum) < enough;
  };
  if (add(1.0 / 12) || add(-1.0 / 720) || add(1.0 / 30240) || add(-1.0 / 1209600) ||
      add(1.0 / 47900160) || add(-691.0 / 1307674368000.0) || add(1.0 / 74724249600.0) ||
      add(-3617.0 / 10670622842880000.0) || add(43867.0 / 5109094217170944000.0) ||
      add(-174611.0 / 802857662698291200000.0) || add(77683.0 / 14101100039391805440000.0) ||
      add(-236364091.0 / 1693824136731743669452800000.0))
    return sum;
  return sum;
}
TC_FN double tc_zeta(double x, double q) { return tc_zeta_to(x, q, 9.0, 1.1102230246251565e-16); }
/// The digits of a float: fewer terms, where x leaves the series behind them falling.
TC_FN float tc_zeta(float x, float q) {
  return static_cast<float>(tc_zeta_to(x, q, x <= 4.0f ? 4.0 : 9.0, 1e-10));
}

/// lgamma(1 + a), to its own digits for small a too.
TC_FN double tc_lgamma_1p(double a) {
  if (tc_abs(a) < 1e-4) // Euler's number, zeta(2) / 2, zeta(3) / 3
    return a *
           (-0.57721566490153286061 + a * (0.82246703342411321824 - a * 0.40068563438653142847));
  return tc_lgamma(1.0 + a);
}
/// x^a exp(-x) / gamma(a + 1).
TC_FN double tc_gamma_density(double a, double x) {
  if (a < 16.0)
    return tc_exp(a * tc_log(x) - x - tc_lgamma_1p(a));
  const double share = (x - a) / a, z = 1.0 / (a * a);
  const double stirling =
      tc_horner(z, -691.0 / 360360, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12) / a;
  const double distance = share < 1.0 ? tc_log1p(share) - share : tc_log(x / a) - share;
  return tc_exp(a * distance - stirling) / tc_sqrt(6.28318530717958647693 * a);
}
/// N. Temme's uniform expansion for large a (DLMF 8.12): the lower one if `lower`. To the digits
/// of a double for a > 1e4 and |x / a - 1| < 0.045.
TC_FN double tc_gamma_near_mean(double a, double x, bool lower) {
  const double share = (x - a) / a;
  const double half = share - tc_log1p(share); // eta^2 / 2
  const double eta = tc_copysign(tc_sqrt(2.0 * (half > 0.0 ? half : 0.0)), share);
  const double side = lower ? -1.0 : 1.0;
  double sum = tc_horner(eta, 0.00026772063206283885, -0.0004691894943952557,
                         0.00022947209362139917, 0.0006494341563786008);
  sum = sum / a + tc_horner(eta, 5.2923448829120125e-05, -0.00010736653226365161,
                            2.0093878600823047e-06, 0.0007716049382716049, -0.0026813271604938273,
                            0.004133597883597883);
  sum = sum / a + tc_horner(eta, 7.64916091608111e-06, -1.8098550334489977e-05,
                            -4.018775720164609e-07, 0.00020576131687242798, -0.0009902263374485596,
                            0.0026455026455026454, -0.003472222222222222, -0.001851851851851852);
  sum = sum / a + tc_horner(eta, 8.296711340953087e-07, -1.85406221071516e-06,
                            -2.1854485106799924e-06, 3.919263178522438e-05, -0.0001787551440329218,
                            0.0003527336860670194, 0.0011574074074074073, -0.014814814814814815,
                            0.08333333333333333, -0.3333333333333333);
  return 0.5 * tc_erfc(side * eta * tc_sqrt(0.5 * a)) +
         side * tc_exp(-a * half) * sum / tc_sqrt(6.28318530717958647693 * a);
}
/// The lower one by its series, for x below a or so.
TC_FN double tc_gamma_series(double a, double x) {
  const double density = tc_gamma_density(a, x);
  double term = 1.0, sum = 1.0;
  for (double k = a + 1.0; term > 1.1102230246251565e-16 * sum && k < a + 20000.0; k += 1.0) {
    term *= x / k;
    sum += term;
  }
  return density * sum;
}
/// The upper one for x of about 1 and less, where it is not far from 1 - x^a / gamma(a + 1).
TC_FN double tc_gamma_upper_series(double a, double x) {
  double factor = 1.0, sum = 0.0;
  for (double n = 1.0; n < 200.0; n += 1.0) {
    factor *= -x / n;
    const double term = factor / (a + n);
    sum += term;
    if (tc_abs(term) <= 1.1102230246251565e-16 * tc_abs(sum))
      break;
  }
  const double exponent = a * tc_log(x) - tc_lgamma_1p(a);
  return -tc_expm1(exponent) - tc_exp(exponent) * a * sum;
}
/// The upper one by its continued fraction (W. Lentz's evaluation), for x above a and 1.
TC_FN double tc_gamma_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1.0 - a, c = 1.0 / kTiny, d = 1.0 / b, product = d;
  for (double i = 1.0; i < 20000.0; i += 1.0) {
    const double numerator = i * (a - i);
    b += 2.0;
    d = numerator * d + b;
    d = 1.0 / (tc_abs(d) < kTiny ? kTiny : d);
    c = b + numerator / c;
    c = tc_abs(c) < kTiny ? kTiny : c;
    product *= d * c;
    if (tc_abs(d * c - 1.0) < 2.220446049250313e-16)
      break;
  }
  return tc_gamma_density(a, x) * product * a;
}
/// The regularized incomplete gamma function: the lower one, P(a, x), if `lower`, else Q(a, x). NaN
/// for what is negative, and where both are 0 or both infinite; the others at their ends, beside a
/// NaN too, as in PyTorch.
TC_FN double tc_gamma_share(double a, double x, bool lower) {
  const bool huge_a = a == tc_infinity<double>(), huge_x = x == tc_infinity<double>();
  if (x < 0.0 || a < 0.0 || (huge_a && huge_x))
    return tc_not_a_number<double>();
  if (a == 0.0)
    return x > 0.0 ? (lower ? 1.0 : 0.0) : tc_not_a_number<double>();
  if (x == 0.0 || huge_a)
    return lower ? 0.0 : 1.0;
  if (huge_x)
    return lower ? 1.0 : 0.0;
  if (a != a || x != x)
    return tc_not_a_number<double>();
  if (a > 1e4 && tc_abs(x - a) < 0.045 * a)
    return tc_gamma_near_mean(a, x, lower);
  if (x > 1.1 && x >= a) {
    const double upper = tc_gamma_fraction(a, x);
    return lower ? 1.0 - upper : upper;
  }
  if (!lower && x <= 1.1 && (x <= 0.5 ? -0.4 / tc_log(x) >= a : x * 1.1 >= a))
    return tc_gamma_upper_series(a, x);
  const double below = tc_gamma_series(a, x);
  return lower ? below : 1.0 - below;
}
#define TC_GAMMA_SHARE(name, lower)                                                                \
  TC_FN double tc_##name(double a, double x) { return tc_gamma_share(a, x, lower); }               \
  TC_FN float tc_##name(float a, float x) {                                                        \
    return static_cast<float>(                                                                     \
        tc_gamma_share(static_cast<double>(a), static_cast<double>(x), lower));                    \
  }
TC_GAMMA_SHARE(igamma, true)
TC_GAMMA_SHARE(igammac, false)

// ---- integers

/// Not negative, but for the smallest number, whose magnitude is itself.
template <class T> TC_FN T tc_gcd(T x, T y) {
  x = tc_abs(x);
  y = tc_abs(y);
  while (x != T(0)) {
    const T rest = tc_fmod(y, x);
    y = x;
    x = rest;
  }
  return y;
}
