// The value of an expression at a point.
#include "symbolic/node.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::symbolic {
namespace {

int64_t checked_power(int64_t base, int64_t exponent) {
  int64_t result = 1;
  for (; exponent > 0; --exponent) {
    result = checked_mul(result, base);
    if (result == 0 || (result == 1 && base == 1))
      break;
  }
  return result;
}

int64_t positive(const char *operation, int64_t divisor) {
  if (divisor <= 0)
    throw_bad_divisor(operation, divisor);
  return divisor;
}

} // namespace

int64_t evaluate(Expr e, const Bindings &bindings) {
  if (e.is_integer())
    return e.value();
  if (e.is_symbol()) {
    auto found = bindings.find(e);
    if (found == bindings.end())
      throw support::InternalError("symbolic", "evaluate", "no value for symbol " + e.spelling());
    return found->second;
  }
  std::span<const Expr> operands = e.operands();
  int64_t first = evaluate(operands[0], bindings);
  auto operand = [&](size_t i) { return evaluate(operands[i], bindings); };
  switch (e.kind()) {
  case Kind::floor_div:
    return floor_quotient(first, positive("FloorDiv", operand(1)));
  case Kind::modular_index: {
    int64_t quotient = floor_quotient(first, positive("ModularIndexing", operand(1)));
    return floor_remainder(quotient, positive("ModularIndexing", operand(2)));
  }
  case Kind::mod:
    return floor_remainder(first, positive("Mod", operand(1)));
  case Kind::power:
    return checked_power(first, operand(1));
  default:
    break;
  }
  for (size_t i = 1; i < operands.size(); ++i) {
    int64_t next = operand(i);
    switch (e.kind()) {
    case Kind::add:
      first = checked_add(first, next);
      break;
    case Kind::mul:
      first = checked_mul(first, next);
      break;
    case Kind::minimum:
      first = std::min(first, next);
      break;
    default:
      first = std::max(first, next);
    }
  }
  return first;
}

} // namespace tsc::symbolic
