// How an index behaves over a run of neighbouring elements.
#pragma once

#include "symbolic/expr.h"

#include <cstdint>

namespace tsc::codegen {

using symbolic::Expr;

enum class Access : uint8_t {
  vector,   // consecutive and aligned: one vector access
  constant, // the same element for the whole run
  element,  // anything else: one access an element
};

/// How `index` behaves while `variable` runs over [v*width, (v+1)*width): `vector` only if the
/// run's first index is a multiple of `alignment` elements. Everything but `variable` is fixed.
/// Exact where it says vector or constant; `element` may be pessimistic.
Access access_of(Expr index, Expr variable, int64_t width, int64_t alignment,
                 const symbolic::Ranges &ranges);

/// Largest known divisor of `index` (up to `limit`, a power of two) where `variable` is a multiple
/// of `width`.
int64_t known_divisor(Expr index, Expr variable, int64_t width, int64_t limit);

} // namespace tsc::codegen
