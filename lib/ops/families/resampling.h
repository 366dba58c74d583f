// What interpolation shares with its backward forms: where each element comes from along one
// dimension, and with which weight.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

enum class Method : uint8_t { nearest, nearest_exact, linear, cubic };

/// One spatial dimension: its sizes, and the scale factor if the call names one.
struct Axis {
  size_t dim = 0;
  Expr from = 0, to = 0;
  std::optional<double> factor;
  bool is_static() const { return from.is_integer() && to.is_integer(); }
};

/// The scale factors of `count` spatial dimensions that a call names: scales, scales_h, ..
std::vector<std::optional<double>> factors_of(const Call &call, size_t count);
/// 1 where the dimension changes its size, else 0: a number where that is known.
Expr is_resized(const GraphBuilder &builder, const Axis &axis);

/// How often each element is repeated, if that is all: PyTorch rounds positions to f32.
std::optional<int64_t> repetitions(const Axis &axis, bool exact);
/// Else: which element each position takes, [to] of int64.
Argument nearest_positions(GraphBuilder &builder, const Axis &axis, bool exact,
                           tensor::Device device);

/// An element's share of another: `positions` [to], int64, within the input; `weights` broadcast
/// along the dimension.
struct Tap {
  Argument positions, weights;
};
/// The taps of linear (2) or cubic (4) interpolation of a tensor like `meta`, in its dtype.
std::vector<Tap> interpolation_taps(GraphBuilder &builder, const TensorMeta &meta, const Axis &axis,
                                    Method method, bool align_corners);

/// What cubic interpolation (a = -0.75) weighs the four elements around a position by that lies
/// `t`, at least 0 and less than 1, behind the second of them.
std::vector<Argument> cubic_weights(GraphBuilder &builder, const Argument &t);

/// The weights [to, from] of an antialiased filter: a triangle, or the cubic kernel with a = -0.5,
/// as wide as the input's elements that an output element covers.
Argument antialiased_weights(GraphBuilder &builder, const Axis &axis, bool align_corners,
                             bool cubic, DType dtype, tensor::Device device);

/// One dimension of known sizes, antialiased by the same filter: sums over the elements of each
/// window alone.
Argument antialiased_along(GraphBuilder &builder, const Argument &x, const Axis &axis, bool cubic,
                           bool align_corners);

/// Linear or cubic, of uint8 in integers. Errors: TSC-O016 for sizes that are no numbers.
Argument resample_bytes(GraphBuilder &builder, const Call &call, const Argument &input,
                        const std::vector<Axis> &axes, bool cubic, bool antialias);

} // namespace tsc::ops
