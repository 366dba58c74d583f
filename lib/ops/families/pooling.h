// What pools share with their backward forms. The calls' schemas name their arguments alike: self,
// kernel_size, stride, padding, dilation, ceil_mode, count_include_pad, divisor_override.
#pragma once

#include "ops/families/windows.h"

namespace tsc::ops {

/// The spatial sizes, the last `rank` dimensions.
std::vector<Expr> spatial_sizes(const TensorMeta &self, size_t rank);
/// The window of a call over `rank` spatial dimensions. Throws TSC-O048 for one that cannot be.
Window pooling_window(const Call &call, size_t rank);
/// How often the window fits into the call's self. Throws TSC-O048 where it does not.
std::vector<Expr> pooled_sizes(const Call &call, const Window &window);
/// What the sum of each window is divided by: a number if it is the same for all, else a tensor
/// that broadcasts over the positions.
Argument pooling_divisor(GraphBuilder &builder, const Call &call, const Window &window,
                         const std::vector<Expr> &positions);
/// The same of adaptive windows, which cut `sizes` into `positions`.
Argument adaptive_divisor(GraphBuilder &builder, const std::vector<Expr> &sizes,
                          const std::vector<Expr> &positions, tensor::Device device);

/// A window's step over some of the dimensions; kernels of 1 elsewhere. `positions`: all of them
/// after the step.
struct Stage {
  Window window;
  std::vector<Expr> positions;
};
/// What windows of `x` come to (sums, maxima) one dimension at a time, the last first, or all at
/// once: whichever the cost model expects to be faster for elements of `bytes`, stored in between.
/// Sizes that are symbols: at once. `kernel`: elements that one of the result asks for, in each
/// dimension; the window's own if null. `with_places`: where the largest stands is looked for, too.
std::vector<Stage> stages_of(const TensorMeta &x, const std::vector<Expr> &positions,
                             const Window &window, size_t bytes,
                             const std::vector<Expr> *kernel = nullptr, bool with_places = false);

} // namespace tsc::ops
