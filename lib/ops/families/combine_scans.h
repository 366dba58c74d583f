// Scans of tuples of tensors by a function of elements, as one operator each.
#pragma once

#include "ops/table/builder.h"

#include <optional>

namespace tsc::ops {

/// What `tsc.associative_scan` calls its function's arguments: elements of what comes before, then
/// of what follows.
inline constexpr std::string_view kCombineOperand = "tsc.combine_operand.default";

/// Scans `xs` along their first dimension by `body` (prepared: slices of what comes before, of what
/// follows, `others`): one node, if they are alike in size and the function computes each element
/// of its few results from the elements of the arguments and from numbers. Else nothing.
std::optional<Argument> scanned_at_once(GraphBuilder &builder, const Call &call, const Graph &body,
                                        const Arguments &xs, const Arguments &others);

} // namespace tsc::ops
