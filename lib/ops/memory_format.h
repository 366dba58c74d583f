// Convolutions and pools keep the order of their input: contiguous, or channels last.
#pragma once

#include "ops/builder.h"

namespace tsc::ops {

/// True if `layout` is dense with [N, C, spatial..] nested as N, spatial.., C, and not contiguous
/// as well. Two spatial dimensions or three.
bool is_channels_last(const tensor::Layout &layout);
/// A fresh tensor of `sizes` in the order of `input`.
Value value_like(const TensorMeta &input, DType dtype, std::vector<Expr> sizes);
/// `x`, copied if its strides are not those of `layout`, which is dense (strides of dimensions of
/// size 1 do not count).
Argument in_layout(GraphBuilder &builder, const Argument &x, const tensor::Layout &layout);

} // namespace tsc::ops
