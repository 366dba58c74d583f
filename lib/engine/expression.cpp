#include "engine/tables.h"

#include <string>

namespace tsc_engine {
namespace {

constexpr int kMaxStack = 64; // builders of tables check that expressions stay below

[[noreturn]] void fail(const Expression &expression, const char *what) {
  throw Error(Status::bad_argument,
              std::string("the size ") + expression.text + " " + what + " for these shapes");
}

int64_t floor_divide(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return quotient - (a % b < 0 ? 1 : 0);
}

int64_t apply(Opcode opcode, int64_t a, int64_t b, const Expression &expression) {
  int64_t result = 0;
  switch (opcode) {
  case Opcode::add:
    if (__builtin_add_overflow(a, b, &result))
      fail(expression, "is beyond 64 bits");
    return result;
  case Opcode::multiply:
    if (__builtin_mul_overflow(a, b, &result))
      fail(expression, "is beyond 64 bits");
    return result;
  case Opcode::floor_divide:
    if (b <= 0)
      fail(expression, "divides by a number that is not positive");
    return floor_divide(a, b);
  case Opcode::modulo:
    if (b <= 0)
      fail(expression, "divides by a number that is not positive");
    return a - b * floor_divide(a, b);
  case Opcode::minimum:
    return a < b ? a : b;
  case Opcode::maximum:
    return a > b ? a : b;
  case Opcode::push:
  case Opcode::symbol:
    break;
  }
  throw Error(Status::internal, "unknown opcode in a size expression");
}

} // namespace

int64_t evaluate(const Tables &tables, const Size &size, const int64_t *symbols) {
  if (size.expression < 0)
    return size.value;
  const Expression &expression = tables.expressions[static_cast<size_t>(size.expression)];
  const int64_t *word = tables.code.rows + expression.code.first;
  const int64_t *end = word + expression.code.count;
  int64_t stack[kMaxStack];
  int depth = 0;
  while (word != end) {
    auto opcode = static_cast<Opcode>(*word++);
    if (opcode == Opcode::push || opcode == Opcode::symbol) {
      if (depth == kMaxStack)
        throw Error(Status::internal, "a size expression is too deep");
      int64_t operand = *word++;
      stack[depth++] = opcode == Opcode::push ? operand : symbols[operand];
      continue;
    }
    if (depth < 2)
      throw Error(Status::internal, "a size expression is malformed");
    --depth;
    stack[depth - 1] = apply(opcode, stack[depth - 1], stack[depth], expression);
  }
  if (depth != 1)
    throw Error(Status::internal, "a size expression is malformed");
  return stack[0];
}

namespace {

/// Inclusive; INT64_MIN and INT64_MAX stand for no bound.
struct Span {
  int64_t low = 0, high = 0;
};
bool is_open(int64_t bound) { return bound == INT64_MIN || bound == INT64_MAX; }
constexpr Span kAnything = {INT64_MIN, INT64_MAX};

int64_t sum_of_bounds(int64_t a, int64_t b, int64_t open) {
  int64_t result = 0;
  return is_open(a) || is_open(b) || __builtin_add_overflow(a, b, &result) ? open : result;
}
Span product(const Span &a, const Span &b) {
  if ((a.low == 0 && a.high == 0) || (b.low == 0 && b.high == 0))
    return {0, 0};
  // Neither is negative: the only case in which an open end says something.
  if (a.low >= 0 && b.low >= 0) {
    Span result;
    if (__builtin_mul_overflow(a.low, b.low, &result.low))
      return {0, INT64_MAX};
    if (is_open(a.high) || is_open(b.high) || __builtin_mul_overflow(a.high, b.high, &result.high))
      result.high = INT64_MAX;
    return result;
  }
  if (is_open(a.low) || is_open(a.high) || is_open(b.low) || is_open(b.high))
    return kAnything;
  Span result = {INT64_MAX, INT64_MIN};
  for (const int64_t x : {a.low, a.high})
    for (const int64_t y : {b.low, b.high}) {
      int64_t value = 0;
      if (__builtin_mul_overflow(x, y, &value))
        return kAnything;
      result = {value < result.low ? value : result.low, value > result.high ? value : result.high};
    }
  return result;
}
Span quotient(const Span &a, const Span &b) {
  if (b.low <= 0)
    return kAnything;
  const auto divide = [](int64_t value, int64_t by) {
    return is_open(value) ? value : floor_divide(value, by);
  };
  return {divide(a.low, a.low < 0 ? b.low : b.high), divide(a.high, a.high < 0 ? b.high : b.low)};
}
Span combined(Opcode opcode, const Span &a, const Span &b) {
  switch (opcode) {
  case Opcode::add:
    return {sum_of_bounds(a.low, b.low, INT64_MIN), sum_of_bounds(a.high, b.high, INT64_MAX)};
  case Opcode::multiply:
    return product(a, b);
  case Opcode::floor_divide:
    return quotient(a, b);
  case Opcode::modulo:
    if (b.low <= 0)
      return kAnything;
    return {0, b.high == INT64_MAX ? b.high : b.high - 1};
  case Opcode::minimum:
    return {a.low < b.low ? a.low : b.low, a.high < b.high ? a.high : b.high};
  case Opcode::maximum:
    return {a.low > b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
  case Opcode::push:
  case Opcode::symbol:
    break;
  }
  return kAnything;
}

} // namespace

int64_t most(const Tables &tables, const Size &size, const int64_t *low, const int64_t *high) {
  if (size.expression < 0)
    return size.value;
  const Expression &expression = tables.expressions[static_cast<size_t>(size.expression)];
  const int64_t *word = tables.code.rows + expression.code.first;
  const int64_t *end = word + expression.code.count;
  Span stack[kMaxStack];
  int depth = 0;
  while (word != end) {
    auto opcode = static_cast<Opcode>(*word++);
    if (opcode == Opcode::push || opcode == Opcode::symbol) {
      if (depth == kMaxStack)
        throw Error(Status::internal, "a size expression is too deep");
      const int64_t operand = *word++;
      stack[depth++] =
          opcode == Opcode::push ? Span{operand, operand} : Span{low[operand], high[operand]};
      continue;
    }
    if (depth < 2)
      throw Error(Status::internal, "a size expression is malformed");
    --depth;
    stack[depth - 1] = combined(opcode, stack[depth - 1], stack[depth]);
  }
  if (depth != 1)
    throw Error(Status::internal, "a size expression is malformed");
  return stack[0].high;
}

int32_t last_defined(const Tables &tables, const Size &size) {
  if (size.expression < 0)
    return -1;
  int32_t last = -1;
  const Expression &expression = tables.expressions[static_cast<size_t>(size.expression)];
  const int64_t *word = tables.code.rows + expression.code.first;
  const int64_t *end = word + expression.code.count;
  while (word != end) {
    const auto opcode = static_cast<Opcode>(*word++);
    if (opcode != Opcode::push && opcode != Opcode::symbol)
      continue;
    const int64_t operand = *word++;
    if (opcode == Opcode::symbol && tables.symbols[static_cast<size_t>(operand)].input < 0)
      last = operand > last ? static_cast<int32_t>(operand) : last;
  }
  return last;
}

} // namespace tsc_engine
