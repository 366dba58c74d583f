// Orthogonal polynomials by three-term recurrences, in the dtype of their arguments: floats
// overflow where PyTorch's do.
#pragma once

#include "tc_math.h"

// Polynomials of x. The degree n is cut to an integer; 0 of a negative one, and of
// one that is no number.

template <class T> TC_FN long long tc_degree(T n) {
  return n > T(-1) && n < T(9e18) ? static_cast<long long>(n) : -1;
}
/// From the polynomials of degrees 0 (which is 1) and 1 by P(k + 1) = step(P(k), P(k - 1), k).
template <class T, class Step> TC_FN T tc_recurrence(long long n, T first, const Step &step) {
  T before = T(1), value = n == 0 ? T(1) : first;
  for (long long k = 1; k < n && value == value; ++k) {
    const T next = step(value, before, static_cast<T>(k));
    before = value;
    value = next;
  }
  return value;
}
template <class T> TC_FN T tc_alternating(long long n) { return n % 2 == 0 ? T(1) : T(-1); }

/// Chebyshev's kinds differ in their first degree, at 1 and -1, and in the angle's function.
template <class T> TC_FN T tc_chebyshev(T x, long long n, T first) {
  return tc_recurrence(n, first, [x](T value, T before, T) { return (x + x) * value - before; });
}
template <class T> TC_FN T tc_chebyshev_t_of(T x, long long n) {
  if (n < 0)
    return T(0);
  if (tc_abs(x) == T(1))
    return x > T(0) ? T(1) : tc_alternating<T>(n);
  if (n > 6 && tc_abs(x) < T(1))
    return tc_cos(static_cast<T>(n) * tc_acos(x));
  return tc_chebyshev(x, n, x);
}
template <class T> TC_FN T tc_chebyshev_u_of(T x, long long n) {
  if (n < 0)
    return T(0);
  const T count = static_cast<T>(n + 1);
  if (tc_abs(x) == T(1))
    return x > T(0) ? count : count * tc_alternating<T>(n);
  if (n > 8 && tc_abs(x) < T(1)) {
    const T angle = tc_acos(x), sine = tc_sin(angle);
    return sine != T(0) ? tc_sin(count * angle) / sine : count * tc_cos(count * angle) / x;
  }
  return tc_chebyshev(x, n, x + x);
}
template <class T> TC_FN T tc_chebyshev_v_of(T x, long long n) {
  if (n < 0)
    return T(0);
  const T count = static_cast<T>(n + n + 1);
  if (tc_abs(x) == T(1))
    return x > T(0) ? T(1) : count * tc_alternating<T>(n);
  if (n > 8 && tc_abs(x) < T(1)) {
    const T angle = tc_acos(x), half = angle / T(2);
    return tc_sin(half) != T(1) ? tc_cos((static_cast<T>(n) + T(0.5)) * angle) / tc_cos(half)
                                : count * tc_alternating<T>(n);
  }
  return tc_chebyshev(x, n, x + x - T(1));
}
template <class T> TC_FN T tc_chebyshev_w_of(T x, long long n) {
  if (n < 0)
    return T(0);
  const T count = static_cast<T>(n + n + 1);
  if (tc_abs(x) == T(1))
    return x > T(0) ? count : tc_alternating<T>(n);
  if (n > 8 && tc_abs(x) < T(1)) {
    const T angle = tc_acos(x), half = angle / T(2);
    if (tc_cos(half) != T(1))
      return tc_sin((static_cast<T>(n) + T(0.5)) * angle) / tc_sin(half);
    return x > T(0) ? count : tc_alternating<T>(n);
  }
  return tc_chebyshev(x, n, x + x + T(1));
}
/// PyTorch gives up (NaN) beyond degree 128 of floats, 512 of doubles.
template <class T> TC_FN T tc_hermite_h_of(T x, long long n) {
  if (n < 0)
    return T(0);
  if (n > (sizeof(T) == 4 ? 128 : 512))
    return static_cast<T>(TC_INF - TC_INF);
  T before = T(1), value = n == 0 ? T(1) : x + x;
  for (long long k = 1; k < n; ++k) {
    const T next = (x + x) * value - static_cast<T>(k + k) * before;
    before = value;
    value = next;
  }
  return value;
}
template <class T> TC_FN T tc_hermite_he_of(T x, long long n) {
  if (n < 0)
    return T(0);
  if (n > (sizeof(T) == 4 ? 128 : 512))
    return static_cast<T>(TC_INF - TC_INF);
  T before = T(1), value = n == 0 ? T(1) : x;
  for (long long k = 1; k < n; ++k) {
    const T next = x * value - static_cast<T>(k) * before;
    before = value;
    value = next;
  }
  return value;
}
template <class T> TC_FN T tc_laguerre_of(T x, long long n) {
  if (n < 0)
    return T(0);
  if (x == T(0))
    return T(1);
  return tc_recurrence(n, T(1) - x, [x](T value, T before, T k) {
    return ((k + k + (T(1) - x)) * value - k * before) / (k + T(1));
  });
}
template <class T> TC_FN T tc_legendre_of(T x, long long n) {
  if (n < 0)
    return T(0);
  if (tc_abs(x) == T(1))
    return x > T(0) ? T(1) : tc_alternating<T>(n);
  return tc_recurrence(n, x, [x](T value, T before, T k) {
    return ((k + k + T(1)) * x * value - k * before) / (k + T(1));
  });
}
#define TC_POLYNOMIAL(name, function)                                                              \
  TC_FN float tc_##name(float x, float n) { return function(x, tc_degree(n)); }                    \
  TC_FN double tc_##name(double x, double n) { return function(x, tc_degree(n)); }
TC_POLYNOMIAL(chebyshev_polynomial_t, tc_chebyshev_t_of)
TC_POLYNOMIAL(chebyshev_polynomial_u, tc_chebyshev_u_of)
TC_POLYNOMIAL(chebyshev_polynomial_v, tc_chebyshev_v_of)
TC_POLYNOMIAL(chebyshev_polynomial_w, tc_chebyshev_w_of)
TC_POLYNOMIAL(hermite_polynomial_h, tc_hermite_h_of)
TC_POLYNOMIAL(hermite_polynomial_he, tc_hermite_he_of)
TC_POLYNOMIAL(laguerre_polynomial_l, tc_laguerre_of)
TC_POLYNOMIAL(legendre_polynomial_p, tc_legendre_of)
