// Sums and products: the expanded polynomial form.
#include "symbolic/node.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <numeric>

namespace tsc::symbolic {
namespace {

/// Terms that one expansion may yield; beyond it is a graph that no compiler should take.
constexpr size_t kMaxTerms = 20000;

void throw_too_many_terms() {
  throw support::UserError(support::ExitCode::bad_input,
                           support::Diagnostic{"TSC-G092",
                                               "an index or size expression expands to more than " +
                                                   std::to_string(kMaxTerms) + " terms",
                                               "", "", "", "",
                                               "simplify the sizes that the graph computes"});
}

/// Terms in canonical order, monomials distinct, coefficients not 0.
Expr add_of(std::vector<Expr> terms) {
  if (terms.empty())
    return Expr(0);
  if (terms.size() == 1)
    return terms[0];
  return Builder::intern(Kind::add, std::move(terms));
}

Expr product_of_factors(std::vector<Expr> factors) {
  if (factors.empty())
    return Expr(1);
  if (factors.size() == 1)
    return factors[0];
  return Builder::intern(Kind::mul, std::move(factors), 1);
}

Expr raise(Expr base, int64_t exponent) {
  if (exponent == 1)
    return base;
  if (exponent > kMaxExponent)
    throw support::UserError(support::ExitCode::bad_input,
                             support::Diagnostic{"TSC-G092",
                                                 "an index or size expression has the power " +
                                                     std::to_string(exponent) + ", more than " +
                                                     std::to_string(kMaxExponent),
                                                 "", "", "", "",
                                                 "simplify the sizes that the graph computes"});
  return Builder::intern(Kind::power, {base, Expr(exponent)});
}

Expr multiply_monomials(Expr a, Expr b) {
  if (a.is_integer())
    return b;
  if (b.is_integer())
    return a;
  std::span<const Expr> left = factors_of(a), right = factors_of(b);
  std::vector<Expr> factors;
  factors.reserve(left.size() + right.size());
  size_t i = 0, j = 0;
  while (i < left.size() && j < right.size()) {
    Factor x = factor_of(left[i]), y = factor_of(right[j]);
    if (x.base == y.base) {
      factors.push_back(raise(x.base, checked_add(x.exponent, y.exponent)));
      ++i;
      ++j;
    } else if (compare(x.base, y.base) < 0) {
      factors.push_back(left[i++]);
    } else {
      factors.push_back(right[j++]);
    }
  }
  factors.insert(factors.end(), left.begin() + static_cast<std::ptrdiff_t>(i), left.end());
  factors.insert(factors.end(), right.begin() + static_cast<std::ptrdiff_t>(j), right.end());
  return product_of_factors(std::move(factors));
}

Expr multiply_terms(Expr a, Expr b) {
  Term x = term_of(a), y = term_of(b);
  int64_t coefficient = checked_mul(x.coefficient, y.coefficient);
  return make_term(coefficient, multiply_monomials(x.monomial, y.monomial));
}

Expr scale(Expr e, int64_t factor) {
  if (factor == 0)
    return Expr(0);
  if (factor == 1)
    return e;
  std::vector<Expr> terms;
  for (Expr term : terms_of(e)) {
    Term t = term_of(term);
    terms.push_back(make_term(checked_mul(t.coefficient, factor), t.monomial));
  }
  return add_of(std::move(terms));
}

} // namespace

void throw_overflow(const char *operation, int64_t a, int64_t b) {
  throw support::UserError(support::ExitCode::bad_input,
                           support::Diagnostic{"TSC-G090",
                                               std::string("a size or index leaves 64 bits: ") +
                                                   operation + " of " + std::to_string(a) +
                                                   " and " + std::to_string(b),
                                               "", "", "", "", "use smaller tensor sizes"});
}

int64_t checked_add(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_add_overflow(a, b, &result))
    throw_overflow("the sum", a, b);
  return result;
}

int64_t checked_mul(int64_t a, int64_t b) {
  int64_t result;
  if (__builtin_mul_overflow(a, b, &result))
    throw_overflow("the product", a, b);
  return result;
}

Term term_of(Expr e) {
  const Node *node = Builder::node(e);
  if (node->kind == Kind::integer)
    return {node->value, Expr(1)};
  if (node->monomial != nullptr)
    return {node->value, Builder::expr(node->monomial)};
  return {1, e};
}

Expr make_term(int64_t coefficient, Expr monomial) {
  if (coefficient == 0 || monomial.is_integer())
    return Expr(coefficient);
  if (coefficient == 1)
    return monomial;
  std::span<const Expr> factors = factors_of(monomial);
  std::vector<Expr> operands;
  operands.reserve(factors.size() + 1);
  operands.push_back(Expr(coefficient));
  operands.insert(operands.end(), factors.begin(), factors.end());
  return Builder::intern(Kind::mul, std::move(operands), coefficient);
}

std::span<const Expr> terms_of(const Expr &e) {
  if (e.kind() == Kind::add)
    return e.operands();
  if (e.is_integer(0))
    return {};
  return {&e, 1};
}

std::span<const Expr> factors_of(const Expr &monomial) {
  if (monomial.kind() == Kind::mul)
    return monomial.operands();
  if (monomial.is_integer())
    return {};
  return {&monomial, 1};
}

Factor factor_of(Expr e) {
  if (e.kind() == Kind::power)
    return {e.operands()[0], e.operands()[1].value()};
  return {e, 1};
}

Expr sum(std::span<const Expr> operands) {
  std::vector<Term> terms;
  for (const Expr &operand : operands)
    for (Expr term : terms_of(operand))
      terms.push_back(term_of(term));
  std::stable_sort(terms.begin(), terms.end(), [](const Term &a, const Term &b) {
    return compare_monomials(a.monomial, b.monomial) < 0;
  });
  std::vector<Expr> result;
  for (size_t i = 0; i < terms.size();) {
    int64_t coefficient = 0;
    size_t j = i;
    for (; j < terms.size() && terms[j].monomial == terms[i].monomial; ++j)
      coefficient = checked_add(coefficient, terms[j].coefficient);
    if (coefficient != 0)
      result.push_back(make_term(coefficient, terms[i].monomial));
    i = j;
  }
  return add_of(std::move(result));
}

Expr operator+(Expr a, Expr b) {
  if (a.is_integer() && b.is_integer())
    return Expr(checked_add(a.value(), b.value()));
  if (a.is_integer(0))
    return b;
  if (b.is_integer(0))
    return a;
  std::span<const Expr> left = terms_of(a), right = terms_of(b);
  std::vector<Expr> terms;
  terms.reserve(left.size() + right.size());
  size_t i = 0, j = 0;
  while (i < left.size() && j < right.size()) {
    Term x = term_of(left[i]), y = term_of(right[j]);
    if (x.monomial == y.monomial) {
      int64_t coefficient = checked_add(x.coefficient, y.coefficient);
      if (coefficient != 0)
        terms.push_back(make_term(coefficient, x.monomial));
      ++i;
      ++j;
    } else if (compare_monomials(x.monomial, y.monomial) < 0) {
      terms.push_back(left[i++]);
    } else {
      terms.push_back(right[j++]);
    }
  }
  terms.insert(terms.end(), left.begin() + static_cast<std::ptrdiff_t>(i), left.end());
  terms.insert(terms.end(), right.begin() + static_cast<std::ptrdiff_t>(j), right.end());
  return add_of(std::move(terms));
}

Expr operator-(Expr a) { return scale(a, -1); }
Expr operator-(Expr a, Expr b) { return a + scale(b, -1); }
Expr &operator+=(Expr &a, Expr b) { return a = a + b; }
Expr &operator*=(Expr &a, Expr b) { return a = a * b; }

Expr operator*(Expr a, Expr b) {
  if (a.is_integer())
    return scale(b, a.value());
  if (b.is_integer())
    return scale(a, b.value());
  std::span<const Expr> left = terms_of(a), right = terms_of(b);
  if (left.size() == 1 && right.size() == 1)
    return multiply_terms(a, b);
  if (left.size() * right.size() > kMaxTerms)
    throw_too_many_terms();
  std::vector<Expr> products;
  products.reserve(left.size() * right.size());
  for (Expr x : left)
    for (Expr y : right)
      products.push_back(multiply_terms(x, y));
  return sum(products);
}

Expr product(std::span<const Expr> factors) {
  Expr result = 1;
  for (Expr factor : factors)
    result = result * factor;
  return result;
}

Expr numel(std::span<const Expr> sizes) { return product(sizes); }

Expr power(Expr base, int64_t exponent) {
  support::require(exponent >= 0, "symbolic", "a negative exponent");
  Expr result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0)
      result = result * base;
    if (exponent > 1)
      base = base * base;
  }
  return result;
}

int64_t content_of(Expr e) {
  int64_t content = 0;
  for (Expr term : terms_of(e)) {
    int64_t coefficient = term_of(term).coefficient;
    content = std::gcd(content, coefficient == INT64_MIN ? int64_t{1} : coefficient);
  }
  return content;
}

Expr divide_exactly(Expr e, int64_t divisor) {
  if (divisor == 1)
    return e;
  std::vector<Expr> terms;
  for (Expr term : terms_of(e)) {
    Term t = term_of(term);
    terms.push_back(make_term(t.coefficient / divisor, t.monomial));
  }
  return add_of(std::move(terms));
}

std::optional<Expr> divide_term(Expr term, Expr divisor) {
  Term x = term_of(term), y = term_of(divisor);
  // INT64_MIN / -1 leaves 64 bits.
  if (y.coefficient == 0 || (y.coefficient == -1 && x.coefficient == INT64_MIN) ||
      x.coefficient % y.coefficient != 0)
    return std::nullopt;
  std::span<const Expr> dividends = factors_of(x.monomial), divisors = factors_of(y.monomial);
  std::vector<Expr> factors;
  size_t j = 0;
  for (Expr factor : dividends) {
    Factor f = factor_of(factor);
    if (j == divisors.size() || factor_of(divisors[j]).base != f.base) {
      factors.push_back(factor);
      continue;
    }
    int64_t left = f.exponent - factor_of(divisors[j++]).exponent;
    if (left < 0)
      return std::nullopt;
    if (left > 0)
      factors.push_back(raise(f.base, left));
  }
  if (j != divisors.size())
    return std::nullopt;
  return make_term(x.coefficient / y.coefficient, product_of_factors(std::move(factors)));
}

} // namespace tsc::symbolic
