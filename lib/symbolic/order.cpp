// The order of expressions: sympy's, so that sums and arguments print as sympy prints them.
#include "symbolic/node.h"

#include <algorithm>

namespace tsc::symbolic {
namespace {

/// sympy's class_key as one comparable text: the rank of the class, then its name.
std::string_view class_key(Expr e) {
  switch (e.kind()) {
  case Kind::integer:
    return "1";
  case Kind::symbol:
    return "2";
  case Kind::mul:
    return "30";
  case Kind::add:
    return "31";
  case Kind::power:
    return "32";
  case Kind::identity:
    return "40Identity";
  case Kind::floor_div:
    return "41FloorDiv";
  case Kind::mod:
    return "41Mod";
  case Kind::modular_index:
    return "41ModularIndexing";
  case Kind::maximum:
    return "5Max";
  case Kind::minimum:
    return "5Min";
  }
  return "9";
}

int sign_of(int64_t a, int64_t b) { return a < b ? -1 : a > b ? 1 : 0; }

int compare_operands(std::span<const Expr> a, std::span<const Expr> b) {
  if (a.size() != b.size())
    return a.size() < b.size() ? -1 : 1;
  for (size_t i = 0; i < a.size(); ++i)
    if (int order = compare(a[i], b[i]))
      return order;
  return 0;
}

/// Compares two things that are neither powers nor carry a coefficient.
int compare_bases(Expr a, Expr b) {
  if (a == b)
    return 0;
  if (int order = class_key(a).compare(class_key(b)))
    return order < 0 ? -1 : 1;
  if (a.is_symbol())
    return a.spelling().compare(b.spelling()) < 0 ? -1 : 1; // no two are spelled alike
  if (a.is_integer())
    return sign_of(a.value(), b.value());
  return compare_operands(a.operands(), b.operands());
}

} // namespace

int compare(Expr a, Expr b) {
  if (a == b)
    return 0;
  Term left = term_of(a), right = term_of(b);
  Factor left_factor = factor_of(left.monomial), right_factor = factor_of(right.monomial);
  if (int order = compare_bases(left_factor.base, right_factor.base))
    return order;
  if (int order = sign_of(left_factor.exponent, right_factor.exponent))
    return order;
  return sign_of(left.coefficient, right.coefficient);
}

int compare_monomials(Expr a, Expr b) {
  if (a == b)
    return 0;
  std::span<const Expr> left = factors_of(a), right = factors_of(b);
  size_t common = std::min(left.size(), right.size());
  for (size_t i = 0; i < common; ++i) {
    if (left[i] == right[i])
      continue;
    Factor x = factor_of(left[i]), y = factor_of(right[i]);
    if (int order = compare_bases(x.base, y.base))
      return order;
    return x.exponent > y.exponent ? -1 : 1;
  }
  return left.size() > right.size() ? -1 : 1;
}

bool ExprLess::operator()(Expr a, Expr b) const { return compare(a, b) < 0; }

} // namespace tsc::symbolic
