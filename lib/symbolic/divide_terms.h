// Polynomial division, as far as whole terms go.
#pragma once

#include "symbolic/expr.h"

namespace tsc::symbolic {

/// e = divisor * quotient + rest, with every term (or, for a divisor that is a sum, every whole set
/// of terms) that `divisor` divides in the quotient.
struct Quotient {
  Expr quotient, rest;
};
Quotient divide_terms(Expr e, Expr divisor);

} // namespace tsc::symbolic
