// FloorDiv, ModularIndexing, Mod, Min and Max: what is true without knowing ranges. Divisors and
// moduli are positive, so a common positive factor of dividend and divisor may be cancelled.
#include "symbolic/divide_terms.h"
#include "symbolic/node.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <numeric>

namespace tsc::symbolic {
namespace {

void check_positive(const char *operation, Expr divisor) {
  if (divisor.is_integer() && divisor.value() <= 0)
    throw_bad_divisor(operation, divisor.value());
}

/// Divides numerator and divisor by what every term of both has in common.
void cancel_common_factor(Expr &numerator, Expr &divisor) {
  int64_t common = std::gcd(content_of(numerator), content_of(divisor));
  if (common > 1) {
    numerator = divide_exactly(numerator, common);
    divisor = divide_exactly(divisor, common);
  }
  // Symbolic factors: only those of a divisor that is one term.
  if (divisor.is_integer() || divisor.kind() == Kind::add)
    return;
  Expr monomial = term_of(divisor).monomial;
  for (Expr factor : factors_of(monomial)) {
    Expr base = factor_of(factor).base;
    while (true) {
      std::optional<Expr> smaller = divide_term(divisor, base);
      std::vector<Expr> quotients;
      for (Expr term : terms_of(numerator)) {
        std::optional<Expr> quotient = divide_term(term, base);
        if (!quotient)
          break;
        quotients.push_back(*quotient);
      }
      if (!smaller || quotients.size() != terms_of(numerator).size())
        break;
      numerator = sum(quotients);
      divisor = *smaller;
    }
  }
}

/// A divisor of several terms (a size such as (s0 - 1)//2 + 1, or a product of such): its multiples
/// stand expanded in `e`, so whole sets of terms leave at once.
void split_multiples_of_sum(Expr e, Expr divisor, std::vector<Expr> &quotients,
                            std::vector<Expr> &rest) {
  const Expr first = terms_of(divisor)[0];
  const size_t least = terms_of(divisor).size();
  for (bool found = true; found && terms_of(e).size() >= least;) {
    found = false;
    for (Expr term : terms_of(e)) {
      std::optional<Expr> quotient = divide_term(term, first);
      if (!quotient)
        continue;
      Expr left = e - *quotient * divisor;
      const size_t count = left.is_integer(0) ? 0 : terms_of(left).size();
      if (count + least > terms_of(e).size())
        continue; // not all of its terms are there
      quotients.push_back(*quotient);
      e = left;
      found = true;
      break;
    }
  }
  if (!e.is_integer(0))
    for (Expr term : terms_of(e))
      rest.push_back(term);
}

/// Splits `e` into divisor * quotient + rest, term by term.
void split_multiples(Expr e, Expr divisor, std::vector<Expr> &quotients, std::vector<Expr> &rest) {
  if (divisor.kind() == Kind::add) {
    split_multiples_of_sum(e, divisor, quotients, rest);
    return;
  }
  for (Expr term : terms_of(e))
    if (std::optional<Expr> quotient = divide_term(term, divisor))
      quotients.push_back(*quotient);
    else
      rest.push_back(term);
}

Expr extremum(Kind kind, Expr a, Expr b) {
  std::vector<Expr> operands;
  std::optional<int64_t> constant;
  for (Expr side : {a, b}) {
    std::span<const Expr> parts(&side, 1);
    if (side.kind() == kind)
      parts = side.operands();
    for (Expr part : parts) {
      if (!part.is_integer())
        operands.push_back(part);
      else if (!constant)
        constant = part.value();
      else
        constant = kind == Kind::minimum ? std::min(*constant, part.value())
                                         : std::max(*constant, part.value());
    }
  }
  if (constant)
    operands.push_back(Expr(*constant));
  std::sort(operands.begin(), operands.end(), ExprLess());
  operands.erase(std::unique(operands.begin(), operands.end()), operands.end());
  if (operands.size() == 1)
    return operands[0];
  return Builder::intern(kind, std::move(operands));
}

} // namespace

void throw_bad_divisor(const char *operation, int64_t divisor) {
  throw support::UserError(support::ExitCode::bad_input,
                           support::Diagnostic{"TSC-G093",
                                               std::string(operation) + " by " +
                                                   std::to_string(divisor) +
                                                   "; divisors and moduli must be positive",
                                               "", "", "", "", "correct the size expression"});
}

int64_t floor_quotient(int64_t a, int64_t b) {
  int64_t quotient = a / b;
  return a % b < 0 ? quotient - 1 : quotient;
}

int64_t floor_remainder(int64_t a, int64_t b) {
  int64_t rest = a % b;
  return rest < 0 ? rest + b : rest;
}

Quotient divide_terms(Expr e, Expr divisor) {
  std::vector<Expr> quotients, rest;
  split_multiples(e, divisor, quotients, rest);
  return {sum(quotients), sum(rest)};
}

Expr floor_div(Expr x, Expr divisor) {
  check_positive("FloorDiv", divisor);
  if (divisor.is_integer(1) || x.is_integer(0))
    return x;
  if (x.is_integer() && divisor.is_integer())
    return Expr(floor_quotient(x.value(), divisor.value()));
  if (x == divisor)
    return Expr(1);
  if (x.kind() == Kind::floor_div)
    return floor_div(x.operands()[0], x.operands()[1] * divisor);
  std::vector<Expr> quotients, rest;
  split_multiples(x, divisor, quotients, rest);
  if (!quotients.empty())
    return floor_div(sum(rest), divisor) + sum(quotients);
  Expr numerator = x;
  cancel_common_factor(numerator, divisor);
  if (numerator != x)
    return floor_div(numerator, divisor);
  return Builder::intern(Kind::floor_div, {x, divisor});
}

Expr modular_index(Expr x, Expr divisor, Expr modulus) {
  check_positive("ModularIndexing", divisor);
  check_positive("ModularIndexing", modulus);
  if (modulus.is_integer(1) || x.is_integer(0))
    return Expr(0);
  if (x.is_integer() && divisor.is_integer() && modulus.is_integer())
    return Expr(floor_remainder(floor_quotient(x.value(), divisor.value()), modulus.value()));
  if (x.kind() == Kind::floor_div)
    return modular_index(x.operands()[0], x.operands()[1] * divisor, modulus);
  std::vector<Expr> multiples, rest;
  split_multiples(x, divisor * modulus, multiples, rest);
  if (!multiples.empty())
    return modular_index(sum(rest), divisor, modulus);
  Expr numerator = x;
  cancel_common_factor(numerator, divisor);
  if (numerator != x)
    return modular_index(numerator, divisor, modulus);
  return Builder::intern(Kind::modular_index, {x, divisor, modulus});
}

Expr mod(Expr x, Expr modulus) {
  check_positive("Mod", modulus);
  if (modulus.is_integer(1) || x == modulus)
    return Expr(0);
  if (x.is_integer() && modulus.is_integer())
    return Expr(floor_remainder(x.value(), modulus.value()));
  std::vector<Expr> multiples, rest;
  split_multiples(x, modulus, multiples, rest);
  if (!multiples.empty())
    return mod(sum(rest), modulus);
  if (x.is_integer(0))
    return x;
  return Builder::intern(Kind::mod, {x, modulus});
}

Expr ceil_div(Expr x, Expr divisor) { return floor_div(x + divisor - Expr(1), divisor); }
Expr minimum(Expr a, Expr b) { return extremum(Kind::minimum, a, b); }
Expr maximum(Expr a, Expr b) { return extremum(Kind::maximum, a, b); }

Expr identity(Expr e) {
  if (e.is_integer() || e.kind() == Kind::identity)
    return e;
  return Builder::intern(Kind::identity, {e});
}

Expr rebuild(Expr e, std::span<const Expr> operands) {
  switch (e.kind()) {
  case Kind::integer:
  case Kind::symbol:
    return e;
  case Kind::add:
    return sum(operands);
  case Kind::mul:
    return product(operands);
  case Kind::power:
    return power(operands[0], operands[1].value());
  case Kind::floor_div:
    return floor_div(operands[0], operands[1]);
  case Kind::modular_index:
    return modular_index(operands[0], operands[1], operands[2]);
  case Kind::mod:
    return mod(operands[0], operands[1]);
  case Kind::identity:
    return identity(operands[0]);
  case Kind::minimum:
  case Kind::maximum:
    break;
  }
  Expr result = operands[0];
  for (Expr operand : operands.subspan(1))
    result = e.kind() == Kind::minimum ? minimum(result, operand) : maximum(result, operand);
  return result;
}

} // namespace tsc::symbolic
