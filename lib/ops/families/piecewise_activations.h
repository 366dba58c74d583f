// What activations share with their backward forms.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// `above` where the call's self is above its threshold or NaN, `below` elsewhere. PyTorch's CPU
/// compares 16-bit floats in f32 here, and rounds the number in other comparisons.
Argument above_threshold(GraphBuilder &builder, const Call &call, const Argument &above,
                         const Argument &below);

} // namespace tsc::ops
