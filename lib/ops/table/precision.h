// Decompositions compute reduced floats in f32: widen first, narrow at the end.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// `x` as `dtype`; `x` itself if it has it.
Argument convert(GraphBuilder &builder, const Argument &x, DType dtype);
/// f16 and bf16 as f32, everything else as it is.
Argument widen(GraphBuilder &builder, const Argument &x);
/// The same as TensorIterator's int-to-float promotion: integers become f32 too.
Argument widen_to_floating(GraphBuilder &builder, const Argument &x);

} // namespace tsc::ops
