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

} // namespace tsc_engine
