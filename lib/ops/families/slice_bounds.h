// The bounds of aten.slice and aten.slice_scatter.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

struct SliceBounds {
  size_t dim = 0;
  /// 0 <= start, end <= size; a start that the data decides, as many elements before the end as the
  /// length says, is held to the dimension when it is known.
  Expr start, end, step, length;
};
/// From the parameters dim, start, end, step. Throws TSC-O021 or -O026.
SliceBounds slice_bounds(const Call &call, const std::vector<Expr> &sizes);

} // namespace tsc::ops
