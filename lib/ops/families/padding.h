// What padding shares with its backward forms.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

enum class Edge : uint8_t { reflect, replicate, circular };

/// Which element of [0, size) stands at each position of [-before, size + after): int64. A circle
/// runs through what is left after pads below 0 have cut it (at::_pad_circular).
Argument padded_positions(GraphBuilder &builder, Expr size, Expr before, Expr after, Edge edge,
                          tensor::Device device);

} // namespace tsc::ops
