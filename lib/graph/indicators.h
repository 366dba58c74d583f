// Conditions on integers as integers: 1 where they hold, else 0.
#pragma once

#include "symbolic/expr.h"

namespace tsc::graph {

inline symbolic::Expr positive(symbolic::Expr a) {
  return symbolic::minimum(1, symbolic::maximum(0, a));
}
inline symbolic::Expr less(symbolic::Expr a, symbolic::Expr b) { return positive(b - a); }
inline symbolic::Expr less_or_equal(symbolic::Expr a, symbolic::Expr b) {
  return positive(b - a + 1);
}
inline symbolic::Expr unequal(symbolic::Expr a, symbolic::Expr b) {
  return symbolic::maximum(less(a, b), less(b, a));
}
inline symbolic::Expr negation(symbolic::Expr condition) { return 1 - condition; }
/// a where the condition holds, else b.
inline symbolic::Expr chosen(symbolic::Expr condition, symbolic::Expr a, symbolic::Expr b) {
  return condition * a + negation(condition) * b;
}

} // namespace tsc::graph
