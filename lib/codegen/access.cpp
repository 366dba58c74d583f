#include "codegen/access.h"

#include "symbolic/divide_terms.h"

#include <algorithm>
#include <numeric>

namespace tsc::codegen {

namespace {

using symbolic::Kind;

enum class Motion : uint8_t {
  still,
  steps,
  other
}; // over the run: constant, +1 an element, anything else

class Analysis {
public:
  Analysis(Expr variable, int64_t width, const Divisibility &checked)
      : variable_(variable), width_(width), checked_(checked) {}

  Motion motion(Expr e) const {
    if (e == variable_)
      return Motion::steps;
    if (e.is_integer() || e.is_symbol())
      return Motion::still;
    const auto operands = e.operands();
    switch (e.kind()) {
    case Kind::add:
      return of_sum(operands);
    case Kind::identity:
      return motion(operands[0]);
    case Kind::floor_div: // (width*q + j + rest) / d is still if d is a multiple of width and rest
                          // one of width
      if (motion(operands[0]) == Motion::steps && is_multiple(operands[1], width_) &&
          divisor(operands[0]) % width_ == 0)
        return Motion::still;
      return all_still(operands);
    case Kind::modular_index:
      if (motion(operands[0]) == Motion::steps && divisor(operands[0]) % width_ == 0) {
        if (is_multiple(operands[1], width_))
          return Motion::still;
        if (operands[1].is_integer(1) && is_multiple(operands[2], width_))
          return Motion::steps;
      }
      return all_still(operands);
    case Kind::mod:
      if (motion(operands[0]) == Motion::steps && divisor(operands[0]) % width_ == 0 &&
          is_multiple(operands[1], width_))
        return Motion::steps;
      return all_still(operands);
    default:
      return all_still(operands);
    }
  }

  /// A divisor of e's value at the start of a run (its greatest known one, capped by gcd with
  /// kLimit).
  int64_t divisor(Expr e) const {
    const int64_t plain = plain_divisor(e);
    if (checked_.sizes.empty() || e.is_integer() || e == variable_ || plain % checked_.of == 0)
      return plain;
    Expr rest = e;
    for (const Expr size : checked_.sizes)
      rest = symbolic::divide_terms(rest, size).rest;
    return rest == e ? plain : std::max(plain, std::gcd(checked_.of, plain_divisor(rest)));
  }

private:
  static constexpr int64_t kLimit = 1 << 12;
  Expr variable_;
  int64_t width_;
  const Divisibility &checked_;

  int64_t plain_divisor(Expr e) const {
    if (e == variable_)
      return width_;
    if (e.is_integer())
      return e.value() == 0 ? kLimit : std::gcd(e.value(), kLimit);
    const auto operands = e.operands();
    switch (e.kind()) {
    case Kind::add: {
      int64_t result = kLimit;
      for (const Expr term : operands)
        result = std::gcd(result, divisor(term));
      return result;
    }
    case Kind::mul: {
      int64_t result = 1;
      for (const Expr factor : operands)
        result = std::gcd(result * divisor(factor), kLimit);
      return result;
    }
    case Kind::power:
    case Kind::identity:
      return divisor(operands[0]);
    case Kind::modular_index:
      return operands[1].is_integer(1) ? std::gcd(divisor(operands[0]), divisor(operands[2])) : 1;
    case Kind::mod:
      return std::gcd(divisor(operands[0]), divisor(operands[1]));
    case Kind::floor_div:
      if (operands[1].is_integer() && operands[1].value() > 0 &&
          divisor(operands[0]) % operands[1].value() == 0)
        return divisor(operands[0]) / operands[1].value();
      return 1;
    default:
      return 1;
    }
  }

  bool is_multiple(Expr e, int64_t of) const {
    return divisor(e) % of == 0 && !symbolic::depends_on(e, variable_);
  }
  Motion of_sum(std::span<const Expr> terms) const {
    Motion result = Motion::still;
    for (const Expr term : terms) {
      const Motion part = motion(term);
      if (part == Motion::other || (part == Motion::steps && result == Motion::steps))
        return Motion::other;
      if (part == Motion::steps)
        result = Motion::steps;
    }
    return result;
  }
  Motion all_still(std::span<const Expr> operands) const {
    for (const Expr operand : operands)
      if (motion(operand) != Motion::still)
        return Motion::other;
    return Motion::still;
  }
};

} // namespace

bool is_multiple(Expr e, int64_t divisor, const symbolic::Ranges &ranges,
                 const Divisibility &checked) {
  if (symbolic::known_multiple_of(e, divisor, ranges))
    return true;
  if (checked.sizes.empty() || checked.of % divisor != 0)
    return false;
  for (const Expr size : checked.sizes)
    e = symbolic::divide_terms(e, size).rest;
  return symbolic::known_multiple_of(e, divisor, ranges);
}

Access access_of(Expr index, Expr variable, int64_t width, int64_t alignment,
                 const Divisibility &checked) {
  const Analysis analysis(variable, width, checked);
  const Motion motion = analysis.motion(index);
  if (motion == Motion::still)
    return Access::constant;
  if (motion == Motion::steps && analysis.divisor(index) % alignment == 0)
    return Access::vector;
  return Access::element;
}

std::optional<int> behind_run(Expr start, int width, Expr held, const symbolic::Ranges &ranges) {
  if (symbolic::known_multiple_of(held, width, ranges))
    for (int before = 0; before < width; ++before)
      if (symbolic::known_multiple_of(start - Expr(before), width, ranges))
        return before;
  return std::nullopt;
}

} // namespace tsc::codegen
