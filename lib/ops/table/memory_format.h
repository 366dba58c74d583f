// Convolutions and pools keep the order of their input: contiguous, or channels last.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// True if `layout` is dense with [N, C, spatial..] nested as N, spatial.., C, and not contiguous
/// as well. Two spatial dimensions or three.
bool is_channels_last(const tensor::Layout &layout);
/// A fresh tensor of `sizes` in the order of `input`.
Value value_like(const TensorMeta &input, DType dtype, std::vector<Expr> sizes);
/// `x`, copied if its strides are not those of `layout`, which is dense (strides of dimensions of
/// size 1 do not count).
Argument in_layout(GraphBuilder &builder, const Argument &x, const tensor::Layout &layout);
Argument contiguous(GraphBuilder &builder, const Argument &x);

/// Rows of operators that PyTorch gives a result in the order of `parameter` where that is channels
/// last, and contiguous otherwise (empty(sizes, suggest_memory_format())). Of several results, the
/// first.
Decomposition in_format_of(std::string_view parameter, Decomposition decomposition);
/// Rows of operators whose result is contiguous, whatever the input (clone(contiguous_format)).
Decomposition contiguously(Decomposition decomposition);

} // namespace tsc::ops
