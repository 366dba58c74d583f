// Values that only a run knows, held to a range: what is outside is an error of the run (TSC-R127)
// that names the value and where it came from.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// `values` (integers) as int64, held to [0, size): "WHAT 7 of input 'ids' is not in [0, 5)".
Argument checked_range(GraphBuilder &builder, const Argument &values, Expr size,
                       std::string_view what = "index");
/// The same with a message of its own: {value}, {size} and {subject} stand for the value, the size
/// and where the value comes from.
Argument checked_with(GraphBuilder &builder, const Argument &values, Expr size,
                      std::string message);

enum class UpperEnd : uint8_t { counts, is_outside };
/// `values` (floats), held to [0, high] or [0, high); NaN is outside.
Argument checked_float(GraphBuilder &builder, const Argument &values, double high, UpperEnd end,
                       std::string_view what);

} // namespace tsc::ops
