// The transposed form of interpolation: for each element of the input which elements of the output
// took from it, and with which weights. They are neighbours, so gradients are gathered instead of
// added at run-time indices.
#pragma once

#include "ops/families/resampling.h"
#include "ops/table/term.h"

#include <optional>

namespace tsc::ops {

/// The gradient of interpolation along `axes` of `x`, whose dimensions there are of the output's
/// sizes: the sum of what took from each element, in x's dtype, in the order in which the outputs
/// lie. Axes that whole factors enlarge are windows that move by the factor, several at a time;
/// others have a lookup a tap. Nothing where sizes are symbols, or taps too many.
std::optional<Term> gathered_gradient(const Term &x, const std::vector<Axis> &axes, Method method,
                                      bool align_corners);

} // namespace tsc::ops
