// Elementwise operations on floats, in double precision, with PyTorch's edge cases.
#include "interpret/special_functions.h"
#include "interpret/tape.h"

#include "support/diagnostic.h"

#include <cmath>

namespace tsc::interpret {
namespace {

double floor_division(double a, double b) { // c10::div_floor_floating
  if (b == 0)
    return a / b;
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0))
    quotient -= 1;
  if (quotient == 0)
    return std::copysign(0.0, a / b);
  double floored = std::floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}

double remainder_of_divisor_sign(double a, double b) { // torch.remainder
  double rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

/// The derivative of lgamma: recurrence up to where few terms of the asymptotic series are exact.
double digamma(double a) {
  if (a == 0)
    return -1 / a;
  if (a < 0 && a == std::trunc(a))
    return std::nan("");
  const long double pi = std::acos(-1.0L);
  long double x = a, result = 0;
  if (a < 0) {
    result = -pi / std::tan(pi * (x - std::trunc(x)));
    x = 1 - x;
  }
  for (; x < 25; x += 1)
    result -= 1 / x;
  const long double z = 1 / (x * x);
  const long double series =
      z * (1 / 12.0L - z * (1 / 120.0L - z * (1 / 252.0L - z * (1 / 240.0L - z / 132.0L))));
  return static_cast<double>(result + std::log(x) - 1 / (2 * x) - series);
}

/// The neighbour of `a` towards `b` among the values of `dtype`.
double next_value(DType dtype, double a, double b) {
  if (dtype == DType::f64)
    return std::nextafter(a, b);
  if (dtype == DType::f32)
    return std::nextafter(static_cast<float>(a), static_cast<float>(b));
  if (std::isnan(a) || std::isnan(b))
    return a + b;
  if (a == b)
    return b;
  int64_t bits = float_bits(dtype, a);
  if (a == 0)
    return std::copysign(float_from_bits(dtype, 1), b);
  bool grows = (a < b) == (a > 0); // in magnitude, so in the bits below the sign
  return float_from_bits(dtype, grows ? bits + 1 : bits - 1);
}

using Unary = double (*)(double);

Unary unary_function(Op op) {
  switch (op) {
  case Op::abs:
    return [](double a) { return std::fabs(a); };
  case Op::acos:
    return [](double a) { return std::acos(a); };
  case Op::acosh:
    return [](double a) { return std::acosh(a); };
  case Op::asin:
    return [](double a) { return std::asin(a); };
  case Op::asinh:
    return [](double a) { return std::asinh(a); };
  case Op::atan:
    return [](double a) { return std::atan(a); };
  case Op::atanh:
    return [](double a) { return std::atanh(a); };
  case Op::ceil:
    return [](double a) { return std::ceil(a); };
  case Op::cos:
    return [](double a) { return std::cos(a); };
  case Op::cosh:
    return [](double a) { return std::cosh(a); };
  case Op::digamma:
    return digamma;
  case Op::erf:
    return [](double a) { return std::erf(a); };
  case Op::erfc:
    return [](double a) { return std::erfc(a); };
  case Op::exp:
    return [](double a) { return std::exp(a); };
  case Op::exp2:
    return [](double a) { return std::exp2(a); };
  case Op::expm1:
    return [](double a) { return std::expm1(a); };
  case Op::floor:
    return [](double a) { return std::floor(a); };
  case Op::lgamma:
    return [](double a) { return std::lgamma(a); };
  case Op::log:
    return [](double a) { return std::log(a); };
  case Op::log10:
    return [](double a) { return std::log10(a); };
  case Op::log1p:
    return [](double a) { return std::log1p(a); };
  case Op::log2:
    return [](double a) { return std::log2(a); };
  case Op::neg:
    return [](double a) { return -a; };
  case Op::reciprocal:
    return [](double a) { return 1.0 / a; };
  case Op::relu:
    return [](double a) { return a < 0 ? 0.0 : a; };
  case Op::round:
    return [](double a) { return std::nearbyint(a); };
  case Op::rsqrt:
    return [](double a) { return 1.0 / std::sqrt(a); };
  case Op::sigmoid:
    return [](double a) { return 1.0 / (1.0 + std::exp(-a)); };
  case Op::sign:
    return [](double a) { return a > 0 ? 1.0 : a < 0 ? -1.0 : 0.0; };
  case Op::sin:
    return [](double a) { return std::sin(a); };
  case Op::sinh:
    return [](double a) { return std::sinh(a); };
  case Op::sqrt:
    return [](double a) { return std::sqrt(a); };
  case Op::square:
    return [](double a) { return a * a; };
  case Op::tan:
    return [](double a) { return std::tan(a); };
  case Op::tanh:
    return [](double a) { return std::tanh(a); };
  case Op::trunc:
    return [](double a) { return std::trunc(a); };
  default:
    return nullptr;
  }
}

using Binary = double (*)(double, double);

Binary binary_function(Op op) {
  switch (op) {
  case Op::add:
    return [](double a, double b) { return a + b; };
  case Op::atan2:
    return [](double a, double b) { return std::atan2(a, b); };
  case Op::copysign:
    return [](double a, double b) { return std::copysign(a, b); };
  case Op::floordiv:
    return floor_division;
  case Op::fmod:
    return [](double a, double b) { return std::fmod(a, b); };
  case Op::hypot:
    return [](double a, double b) { return std::hypot(a, b); };
  case Op::maximum:
    return [](double a, double b) { return std::isnan(a) || a > b ? a : b; };
  case Op::minimum:
    return [](double a, double b) { return std::isnan(a) || a < b ? a : b; };
  case Op::mod:
    return remainder_of_divisor_sign;
  case Op::mul:
    return [](double a, double b) { return a * b; };
  case Op::pow:
    return [](double a, double b) { return std::pow(a, b); };
  case Op::sub:
    return [](double a, double b) { return a - b; };
  case Op::truediv:
    return [](double a, double b) { return a / b; };
  case Op::truncdiv:
    return [](double a, double b) { return std::trunc(a / b); };
  default:
    return nullptr;
  }
}

} // namespace

void apply_float(Op op, DType dtype, const Points &points, const double *const *args,
                 double *result) {
  const double *a = args[0], *b = args[1], *c = args[2];
  // The three that dominate transformers get loops of their own.
  if (op == Op::add)
    return points.for_each([&](size_t p) { result[p] = a[p] + b[p]; });
  if (op == Op::mul)
    return points.for_each([&](size_t p) { result[p] = a[p] * b[p]; });
  if (op == Op::sub)
    return points.for_each([&](size_t p) { result[p] = a[p] - b[p]; });
  if (op == Op::fma)
    return points.for_each([&](size_t p) { result[p] = std::fma(a[p], b[p], c[p]); });
  if (op == Op::truncdiv && dtype != DType::f64) // 1.5 / 0.1f is 15 in f32, and less in f64
    return points.for_each(
        [&](size_t p) { result[p] = std::trunc(round_to(DType::f32, a[p] / b[p])); });
  if (op == Op::nextafter)
    return points.for_each([&](size_t p) { result[p] = next_value(dtype, a[p], b[p]); });
  if (Unary unary = unary_function(op))
    return points.for_each([&](size_t p) { result[p] = unary(a[p]); });
  if (Binary binary = binary_function(op))
    return points.for_each([&](size_t p) { result[p] = binary(a[p], b[p]); });
  if (UnaryFunction unary = special_unary(op, dtype))
    return points.for_each([&](size_t p) { result[p] = unary(a[p]); });
  if (BinaryFunction binary = special_binary(op, dtype))
    return points.for_each([&](size_t p) { result[p] = binary(a[p], b[p]); });
  throw support::InternalError("interpret", std::string(ir::op_name(op)),
                               "no meaning for floating-point operands");
}

void apply_float_predicate(Op op, const Points &points, const double *const *args,
                           int64_t *result) {
  const double *a = args[0], *b = args[1];
  auto fill = [&](auto predicate) {
    points.for_each([&](size_t p) { result[p] = predicate(p) ? 1 : 0; });
  };
  switch (op) {
  case Op::eq:
    return fill([&](size_t p) { return a[p] == b[p]; });
  case Op::ne:
    return fill([&](size_t p) { return a[p] != b[p]; });
  case Op::lt:
    return fill([&](size_t p) { return a[p] < b[p]; });
  case Op::le:
    return fill([&](size_t p) { return a[p] <= b[p]; });
  case Op::gt:
    return fill([&](size_t p) { return a[p] > b[p]; });
  case Op::ge:
    return fill([&](size_t p) { return a[p] >= b[p]; });
  case Op::logical_and:
    return fill([&](size_t p) { return a[p] != 0 && b[p] != 0; });
  case Op::logical_or:
    return fill([&](size_t p) { return a[p] != 0 || b[p] != 0; });
  case Op::logical_xor:
    return fill([&](size_t p) { return (a[p] != 0) != (b[p] != 0); });
  case Op::logical_not:
    return fill([&](size_t p) { return a[p] == 0; });
  case Op::isnan:
    return fill([&](size_t p) { return std::isnan(a[p]); });
  case Op::isinf:
    return fill([&](size_t p) { return std::isinf(a[p]); });
  case Op::signbit:
    return fill([&](size_t p) { return std::signbit(a[p]); });
  default:
    throw support::InternalError("interpret", std::string(ir::op_name(op)),
                                 "no boolean result for floating-point operands");
  }
}

} // namespace tsc::interpret
