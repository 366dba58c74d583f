// Convolution, as both halves see it: shape rules, and the ways of computing it.
#pragma once

#include "ops/families/windows.h"

namespace tsc::ops {

/// The arguments of one aten.convolution: input [N, C, sizes..], weight [O, C / groups, kernel..],
/// or [C, O / groups, kernel..] if transposed.
struct Convolution {
  TensorMeta input, weight;
  Window window;
  bool transposed = false;
  Expr groups;
  std::vector<Expr> positions; // spatial sizes of the result
  TensorMeta result;           // as PyTorch lays it out

  size_t rank() const { return window.rank(); }
  Expr batch() const { return input.layout.sizes[0]; }
  Expr channels() const { return input.layout.sizes[1]; }
  Expr outputs() const { return result.layout.sizes[1]; }
};

/// Checks the arguments against each other. Throws TSC-O048.
Convolution convolution_of(const Call &call);

/// aten.convolution in terms of windows, matrix products and sums: the way without a library.
Argument compute_convolution(GraphBuilder &builder, const Call &call);

} // namespace tsc::ops
