// Integers of a few values in floats, by scales and zero points that are given.
#pragma once

#include "ops/table/term.h"

namespace tsc::ops {

/// The scale and the zero point of every element, tensors that broadcast with it or numbers.
struct Parameters {
  Argument scale, inverse, zero_point;
  bool is_whole = true; // the zero point is an integer
};

/// (result, mask) of the tensor 'self' of `call`, between its 'quant_min' and 'quant_max'.
Arguments quantized(GraphBuilder &builder, const Call &call, const Parameters &by);

/// The sizes of `self`, 1 but along `axis`, with which a number for each channel broadcasts.
std::vector<Expr> channel_sizes(const Call &call, std::string_view axis);

} // namespace tsc::ops
