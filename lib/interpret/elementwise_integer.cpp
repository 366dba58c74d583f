// Elementwise operations on integers and bools: exact, wrapping in the dtype.
#include "interpret/tape.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::interpret {
namespace {

uint64_t bits(int64_t value) { return static_cast<uint64_t>(value); }
int64_t from_bits(uint64_t value) { return static_cast<int64_t>(value); }

/// Division by zero gives 0: a lane that `where` discards may compute it.
int64_t truncating_quotient(DType dtype, int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  if (dtype == DType::u64)
    return from_bits(bits(a) / bits(b));
  return b == -1 ? from_bits(-bits(a)) : a / b;
}

int64_t truncating_remainder(DType dtype, int64_t a, int64_t b) {
  if (b == 0)
    return 0;
  if (dtype == DType::u64)
    return from_bits(bits(a) % bits(b));
  return b == -1 ? 0 : a % b;
}

int64_t flooring_quotient(DType dtype, int64_t a, int64_t b) {
  int64_t quotient = truncating_quotient(dtype, a, b);
  int64_t rest = truncating_remainder(dtype, a, b);
  return dtype != DType::u64 && rest != 0 && (rest < 0) != (b < 0) ? quotient - 1 : quotient;
}

int64_t flooring_remainder(DType dtype, int64_t a, int64_t b) {
  int64_t rest = truncating_remainder(dtype, a, b);
  return dtype != DType::u64 && rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

int64_t power(DType dtype, int64_t base, int64_t exponent) {
  if (dtype != DType::u64 && exponent < 0) // as PyTorch: only 1 and -1 have an integer inverse
    return base == 1 ? 1 : base == -1 ? (exponent % 2 == 0 ? 1 : -1) : 0;
  uint64_t result = 1, square = bits(base);
  for (uint64_t left = bits(exponent); left != 0; left >>= 1) {
    if ((left & 1) != 0)
      result *= square;
    square *= square;
  }
  return from_bits(result);
}

int64_t shift_left(DType dtype, int64_t a, int64_t count) {
  auto width = static_cast<int64_t>(8 * tensor::size_in_bytes(dtype));
  return count < 0 || count >= width ? 0 : from_bits(bits(a) << count);
}

int64_t shift_right(DType dtype, int64_t a, int64_t count) {
  auto width = static_cast<int64_t>(8 * tensor::size_in_bytes(dtype));
  if (!tensor::is_signed(dtype))
    return count < 0 || count >= width ? 0 : from_bits(bits(a) >> count);
  return a >> (count < 0 || count >= width ? 63 : count);
}

bool less(DType dtype, int64_t a, int64_t b) {
  return dtype == DType::u64 ? bits(a) < bits(b) : a < b;
}

/// PyTorch's: the magnitude of the smallest number is itself.
int64_t greatest_common_divisor(DType dtype, int64_t a, int64_t b) {
  const auto magnitude = [&](int64_t x) {
    return tensor::is_signed(dtype) && x < 0 ? wrap_to(dtype, from_bits(-bits(x))) : x;
  };
  a = magnitude(a), b = magnitude(b);
  while (a != 0) {
    const int64_t rest = truncating_remainder(dtype, b, a);
    b = a;
    a = rest;
  }
  return b;
}

template <class F>
void map_unary(DType dtype, const Points &points, const int64_t *a, int64_t *result,
               const F &function) {
  points.for_each([&](size_t p) { result[p] = wrap_to(dtype, function(a[p])); });
}

template <class F>
void map_binary(DType dtype, const Points &points, const int64_t *const *args, int64_t *result,
                const F &function) {
  const int64_t *a = args[0], *b = args[1];
  points.for_each([&](size_t p) { result[p] = wrap_to(dtype, function(a[p], b[p])); });
}

bool apply_unary(Op op, DType dtype, const Points &points, const int64_t *a, int64_t *result) {
  auto with = [&](auto function) {
    map_unary(dtype, points, a, result, function);
    return true;
  };
  bool is_signed = tensor::is_signed(dtype);
  switch (op) {
  case Op::abs:
    return with([&](int64_t x) { return is_signed && x < 0 ? from_bits(-bits(x)) : x; });
  case Op::neg:
    return with([](int64_t x) { return from_bits(-bits(x)); });
  case Op::bitwise_not:
    if (dtype == DType::boolean)
      return with([](int64_t x) { return int64_t{x == 0}; });
    return with([](int64_t x) { return ~x; });
  case Op::relu:
    return with([&](int64_t x) { return is_signed && x < 0 ? 0 : x; });
  case Op::sign:
    return with([&](int64_t x) { return x == 0 ? int64_t{0} : is_signed && x < 0 ? -1 : 1; });
  case Op::square:
    return with([](int64_t x) { return from_bits(bits(x) * bits(x)); });
  case Op::ceil:
  case Op::floor:
  case Op::round:
  case Op::trunc:
    return with([](int64_t x) { return x; });
  default:
    return false;
  }
}

bool apply_binary(Op op, DType dtype, const Points &points, const int64_t *const *args,
                  int64_t *result) {
  auto with = [&](auto function) {
    map_binary(dtype, points, args, result, function);
    return true;
  };
  switch (op) {
  case Op::add:
    return with([](int64_t a, int64_t b) { return from_bits(bits(a) + bits(b)); });
  case Op::sub:
    return with([](int64_t a, int64_t b) { return from_bits(bits(a) - bits(b)); });
  case Op::mul:
    return with([](int64_t a, int64_t b) { return from_bits(bits(a) * bits(b)); });
  case Op::floordiv:
    return with([&](int64_t a, int64_t b) { return flooring_quotient(dtype, a, b); });
  case Op::truncdiv:
    return with([&](int64_t a, int64_t b) { return truncating_quotient(dtype, a, b); });
  case Op::mod:
    return with([&](int64_t a, int64_t b) { return flooring_remainder(dtype, a, b); });
  case Op::fmod:
    return with([&](int64_t a, int64_t b) { return truncating_remainder(dtype, a, b); });
  case Op::gcd:
    return with([&](int64_t a, int64_t b) { return greatest_common_divisor(dtype, a, b); });
  case Op::maximum:
    return with([&](int64_t a, int64_t b) { return less(dtype, a, b) ? b : a; });
  case Op::minimum:
    return with([&](int64_t a, int64_t b) { return less(dtype, b, a) ? b : a; });
  case Op::bitwise_and:
    return with([](int64_t a, int64_t b) { return a & b; });
  case Op::bitwise_or:
    return with([](int64_t a, int64_t b) { return a | b; });
  case Op::bitwise_xor:
    return with([](int64_t a, int64_t b) { return a ^ b; });
  case Op::bitwise_left_shift:
    return with([&](int64_t a, int64_t b) { return shift_left(dtype, a, b); });
  case Op::bitwise_right_shift:
    return with([&](int64_t a, int64_t b) { return shift_right(dtype, a, b); });
  case Op::pow:
    return with([&](int64_t a, int64_t b) { return power(dtype, a, b); });
  default:
    return false;
  }
}

} // namespace

void apply_integer(Op op, DType dtype, const Points &points, const int64_t *const *args,
                   int64_t *result) {
  if (apply_unary(op, dtype, points, args[0], result) ||
      apply_binary(op, dtype, points, args, result))
    return;
  if (op == Op::fma) {
    const int64_t *a = args[0], *b = args[1], *c = args[2];
    return points.for_each([&](size_t p) {
      result[p] = wrap_to(dtype, from_bits(bits(a[p]) * bits(b[p]) + bits(c[p])));
    });
  }
  throw support::InternalError("interpret", std::string(ir::op_name(op)),
                               "no meaning for integer operands");
}

void apply_integer_predicate(Op op, DType dtype, const Points &points, const int64_t *const *args,
                             int64_t *result) {
  const int64_t *a = args[0], *b = args[1];
  auto fill = [&](auto predicate) {
    points.for_each([&](size_t p) { result[p] = predicate(p) ? 1 : 0; });
  };
  switch (op) {
  case Op::eq:
    return fill([&](size_t p) { return a[p] == b[p]; });
  case Op::ne:
    return fill([&](size_t p) { return a[p] != b[p]; });
  case Op::lt:
    return fill([&](size_t p) { return less(dtype, a[p], b[p]); });
  case Op::le:
    return fill([&](size_t p) { return !less(dtype, b[p], a[p]); });
  case Op::gt:
    return fill([&](size_t p) { return less(dtype, b[p], a[p]); });
  case Op::ge:
    return fill([&](size_t p) { return !less(dtype, a[p], b[p]); });
  case Op::logical_and:
    return fill([&](size_t p) { return a[p] != 0 && b[p] != 0; });
  case Op::logical_or:
    return fill([&](size_t p) { return a[p] != 0 || b[p] != 0; });
  case Op::logical_xor:
    return fill([&](size_t p) { return (a[p] != 0) != (b[p] != 0); });
  case Op::logical_not:
    return fill([&](size_t p) { return a[p] == 0; });
  case Op::signbit:
    return fill([&](size_t p) { return tensor::is_signed(dtype) && a[p] < 0; });
  default:
    apply_integer(op, DType::boolean, points, args, result);
  }
}

} // namespace tsc::interpret
