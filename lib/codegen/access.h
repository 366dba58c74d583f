// How an index behaves over a run of neighbouring elements.
#pragma once

#include "symbolic/expr.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tsc::codegen {

using symbolic::Expr;

enum class Access : uint8_t {
  vector,   // consecutive and aligned: one vector access
  constant, // the same element for the whole run
  element,  // anything else: one access an element
};

/// Sizes that are multiples of `of` (a power of two): what the launch has checked, where a kernel
/// has a path for such sizes.
struct Divisibility {
  int64_t of = 1;
  std::vector<Expr> sizes;
};
/// True if `e` is a multiple of `divisor` under `ranges` and what the launch has checked.
bool is_multiple(Expr e, int64_t divisor, const symbolic::Ranges &ranges,
                 const Divisibility &checked);

/// How `index` behaves while `variable` runs over [v*width, (v+1)*width): `vector` only if the
/// run's first index is a multiple of `alignment` elements. Everything but `variable` is fixed.
/// Exact where it says vector or constant; `element` may be pessimistic.
Access access_of(Expr index, Expr variable, int64_t width, int64_t alignment,
                 const Divisibility &checked);

/// How many elements `start` lies behind a multiple of `width`, where that is known, and runs of
/// `width` from multiples on lie whole in a buffer of `held` elements or outside of it.
std::optional<int> behind_run(Expr start, int width, Expr held, const symbolic::Ranges &ranges);

} // namespace tsc::codegen
