// Interval analysis: what the ranges of symbols say about an expression. int64 extremes stand for
// infinity; arithmetic saturates at them.
#include "symbolic/node.h"

#include <algorithm>

namespace tsc::symbolic {
namespace {

int64_t saturated_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result))
    return a < 0 ? INT64_MIN : INT64_MAX;
  return result;
}

bool is_infinite(int64_t value) { return value == INT64_MIN || value == INT64_MAX; }

/// An infinite end stays infinite.
int64_t add_ends(int64_t a, int64_t b) {
  if (is_infinite(a))
    return a;
  return is_infinite(b) ? b : saturated_add(a, b);
}

int64_t multiply_ends(int64_t a, int64_t b) {
  int64_t result;
  if (a == 0 || b == 0)
    return 0;
  if (is_infinite(a) || is_infinite(b) || __builtin_mul_overflow(a, b, &result))
    return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
  return result;
}

Interval multiply(Interval a, Interval b) {
  int64_t ends[] = {multiply_ends(a.low, b.low), multiply_ends(a.low, b.high),
                    multiply_ends(a.high, b.low), multiply_ends(a.high, b.high)};
  return {*std::min_element(ends, ends + 4), *std::max_element(ends, ends + 4)};
}

int64_t divide_end(int64_t value, int64_t divisor) {
  if (is_infinite(value))
    return value;
  if (divisor == INT64_MAX)
    return value < 0 ? -1 : 0;
  return floor_quotient(value, divisor);
}

Interval remainder(Interval x, Interval modulus) {
  int64_t smallest = std::max<int64_t>(modulus.low, 1);
  int64_t largest = std::max<int64_t>(modulus.high, 1);
  if (x.low >= 0 && x.high < smallest)
    return x;
  int64_t high = largest == INT64_MAX ? INT64_MAX : largest - 1;
  if (smallest == largest && !is_infinite(x.low) && !is_infinite(x.high) &&
      floor_quotient(x.low, largest) == floor_quotient(x.high, largest))
    return {floor_remainder(x.low, largest), floor_remainder(x.high, largest)};
  return {0, x.low >= 0 ? std::min(x.high, high) : high};
}

Interval bounds_of_power(Interval base, int64_t exponent) {
  Interval result = base;
  for (int64_t i = 1; i < exponent && i < 64; ++i)
    result = multiply(result, base);
  if (exponent % 2 == 0)
    result.low = std::max<int64_t>(result.low, 0);
  if (exponent >= 64 && (base.low < -1 || base.high > 1))
    return {exponent % 2 == 0 ? 0 : INT64_MIN, INT64_MAX};
  return result;
}

class Bounder {
public:
  explicit Bounder(const Ranges &ranges) : ranges_(ranges) {}

  Interval visit(Expr e) {
    if (e.is_integer())
      return {e.value(), e.value()};
    if (e.is_symbol())
      return ranges_.interval_of(e);
    bool remember = Builder::node(e)->depth > 1;
    if (remember) {
      auto found = memo_.find(e);
      if (found != memo_.end())
        return found->second;
    }
    Interval result = compute(e);
    if (remember)
      memo_.emplace(e, result);
    return result;
  }

private:
  Interval compute(Expr e) {
    std::span<const Expr> operands = e.operands();
    Interval result = visit(operands[0]);
    switch (e.kind()) {
    case Kind::floor_div:
      return quotient_bounds(result, visit(operands[1]));
    case Kind::modular_index: {
      Interval quotient = quotient_bounds(result, visit(operands[1]));
      return remainder(quotient, visit(operands[2]));
    }
    case Kind::mod:
      return remainder(result, visit(operands[1]));
    case Kind::power:
      return bounds_of_power(result, operands[1].value());
    default:
      break;
    }
    for (size_t i = 1; i < operands.size(); ++i) {
      Interval next = visit(operands[i]);
      if (e.kind() == Kind::add)
        result = {add_ends(result.low, next.low), add_ends(result.high, next.high)};
      else if (e.kind() == Kind::mul)
        result = multiply(result, next);
      else if (e.kind() == Kind::minimum)
        result = {std::min(result.low, next.low), std::min(result.high, next.high)};
      else
        result = {std::max(result.low, next.low), std::max(result.high, next.high)};
    }
    return result;
  }

  const Ranges &ranges_;
  std::unordered_map<Expr, Interval, ExprHash> memo_;
};

/// 1 where nothing is negative, -1 where nothing is positive, else 0.
int sign_of(Interval interval) { return interval.low >= 0 ? 1 : interval.high <= 0 ? -1 : 0; }

/// 1 if `e` never falls as `symbol` grows, -1 if it never rises, 0 if neither is known.
int direction_of(Expr e, Expr symbol, const Ranges &ranges) {
  if (e == symbol)
    return 1;
  const auto together = [&](std::span<const Expr> parts) {
    int all = 0;
    for (const Expr part : parts) {
      if (!depends_on(part, symbol))
        continue;
      const int one = direction_of(part, symbol, ranges);
      if (one == 0 || (all != 0 && one != all))
        return 0;
      all = one;
    }
    return all;
  };
  const std::span<const Expr> operands = e.operands();
  switch (e.kind()) {
  case Kind::add:
  case Kind::minimum:
  case Kind::maximum:
    return together(operands);
  case Kind::floor_div:
    return depends_on(operands[1], symbol) ? 0 : direction_of(operands[0], symbol, ranges);
  case Kind::mul:
    break;
  default:
    return 0;
  }
  std::vector<Expr> others;
  Expr one = 0;
  for (const Expr factor : operands)
    if (!depends_on(factor, symbol))
      others.push_back(factor);
    else if (one.is_integer())
      one = factor;
    else
      return 0;
  const int sign = sign_of(bounds(product(others), ranges));
  return sign == 0 ? 0 : sign * direction_of(one, symbol, ranges);
}

/// Moves loop variables of symbolic size to the end of their range where `e` is least.
Expr least_over_symbolic_sizes(Expr e, const Ranges &ranges) {
  // Sizes may mention further symbols; a fixed number of rounds is enough for nests of loops.
  for (int round = 0; round < 4; ++round) {
    bool changed = false;
    for (Expr symbol : free_symbols(e)) {
      std::optional<Expr> size = ranges.size_of(symbol);
      if (!size)
        continue;
      const std::optional<Expr> coefficient = coefficient_of(e, symbol);
      const int direction =
          coefficient ? sign_of(bounds(*coefficient, ranges)) : direction_of(e, symbol, ranges);
      if (direction == 0)
        continue;
      e = substitute(e, {{symbol, direction > 0 ? Expr(0) : *size - Expr(1)}});
      changed = true;
    }
    if (!changed)
      break;
  }
  return e;
}

/// A lower bound of `e`: what is subtracted of whole quotients is at most what was divided, as
/// 2*R*(n//2) is at most R*n, and a remainder less than its modulus: divisors are positive. `e`
/// itself where nothing of the kind is subtracted.
Expr least_of_divisions(Expr e, const Ranges &ranges) {
  std::vector<Expr> terms;
  for (const Expr given : terms_of(e)) {
    Expr term = given;
    for (const Expr factor : factors_of(term_of(given).monomial)) {
      const bool divides = factor.kind() == Kind::floor_div;
      if (!divides && factor.kind() != Kind::mod && factor.kind() != Kind::modular_index)
        continue;
      const Expr by = factor.operands().back();
      const std::optional<Expr> rest = divide_term(given, factor),
                                times = rest && divides ? divide_term(*rest, by) : rest;
      if (times && bounds(*times, ranges).high <= 0) {
        term = *times * (divides ? factor.operands()[0] : by - Expr(1));
        break;
      }
    }
    terms.push_back(term);
  }
  return sum(terms);
}

} // namespace

Interval quotient_bounds(Interval x, Interval divisor) {
  int64_t smallest = std::max<int64_t>(divisor.low, 1),
          largest = std::max<int64_t>(divisor.high, 1);
  return {divide_end(x.low, x.low < 0 ? smallest : largest),
          divide_end(x.high, x.high < 0 ? largest : smallest)};
}

void Ranges::set(Expr symbol, Interval interval) { intervals_[symbol] = interval; }

void Ranges::set_size(Expr symbol, Expr size) {
  int64_t largest = bounds(size, *this).high;
  intervals_[symbol] = {0, largest == INT64_MAX ? largest : std::max<int64_t>(largest - 1, 0)};
  if (size.is_integer())
    sizes_.erase(symbol);
  else
    sizes_[symbol] = size;
}

Interval Ranges::interval_of(Expr symbol) const {
  auto found = intervals_.find(symbol);
  if (found != intervals_.end())
    return found->second;
  if (symbol.is_symbol(SymbolSort::size) || symbol.is_symbol(SymbolSort::data))
    return {0, INT64_MAX};
  return {};
}

std::optional<Expr> Ranges::size_of(Expr symbol) const {
  auto found = sizes_.find(symbol);
  if (found == sizes_.end())
    return std::nullopt;
  return found->second;
}

Interval bounds(Expr e, const Ranges &ranges) { return Bounder(ranges).visit(e); }

bool known_nonnegative(Expr e, const Ranges &ranges) {
  if (bounds(e, ranges).low >= 0)
    return true;
  if (e.is_integer() || e.is_symbol())
    return false;
  constexpr int kRounds = 4; // divisions of divisions
  Expr least = least_over_symbolic_sizes(e, ranges);
  if (least != e && bounds(least, ranges).low >= 0)
    return true;
  for (int round = 0; round < kRounds; ++round) {
    const Expr less = least_of_divisions(least, ranges);
    if (less == least)
      return false;
    if (bounds(less, ranges).low >= 0)
      return true;
    least = less;
  }
  return false;
}

bool known_less(Expr a, Expr b, const Ranges &ranges) {
  return known_nonnegative(b - a - Expr(1), ranges);
}

bool known_less_equal(Expr a, Expr b, const Ranges &ranges) {
  return known_nonnegative(b - a, ranges);
}

bool wraps_once(Expr x, Expr modulus, const Ranges &ranges) {
  return !modulus.is_integer() && known_nonnegative(x + modulus, ranges) &&
         known_less(x, 2 * modulus, ranges);
}

bool known_multiple_of(Expr e, int64_t divisor, const Ranges &ranges) {
  if (divisor == 1 || divisor == -1)
    return true;
  if (divisor == 0)
    return e.is_integer(0);
  auto is_multiple = [&](Expr term) {
    if (term_of(term).coefficient % divisor == 0)
      return true;
    if (term.kind() == Kind::minimum || term.kind() == Kind::maximum) {
      const std::span<const Expr> operands = term.operands();
      return std::all_of(operands.begin(), operands.end(),
                         [&](Expr operand) { return known_multiple_of(operand, divisor, ranges); });
    }
    // Factors may carry the divisor between them: (2*s0) cannot hide here, but a value known to be
    // a single integer can.
    Interval interval = bounds(term, ranges);
    return interval.low == interval.high && !is_infinite(interval.low) &&
           interval.low % divisor == 0;
  };
  std::span<const Expr> terms = terms_of(e);
  return std::all_of(terms.begin(), terms.end(), is_multiple);
}

} // namespace tsc::symbolic
