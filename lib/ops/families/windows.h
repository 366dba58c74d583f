// What convolution, pooling, unfold and fold share: sliding windows over the last dimensions.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// A window of `kernel` taps, `dilation` apart, that moves by `stride` over a dimension with
/// `padding` elements on either side. One entry a spatial dimension.
struct Window {
  std::vector<Expr> kernel, stride, padding, dilation;
  size_t rank() const { return kernel.size(); }
  Expr taps() const { return symbolic::numel(kernel); }
};

/// The argument `name` for `count` dimensions: one value may stand for all, none (or an operator
/// without this argument) for `fallback`. TSC-O048 for another count.
std::vector<Expr> spread(const Call &call, std::string_view name, size_t count, Expr fallback);

/// tsc.windows: x [.., sizes..] as [.., positions.., kernel..], `fill` outside of x.
Argument windows_of(GraphBuilder &builder, const Argument &x, const std::vector<Expr> &positions,
                    const Window &window, const Argument &fill);
/// tsc.overlaps, its counterpart: x [.., positions.., kernel..] as [.., sizes.., kernel..], for
/// each element and tap what the one window held whose tap lies there, 0 where there is none.
/// Summed over the taps it puts windows back.
Argument overlaps_of(GraphBuilder &builder, const Argument &x, const std::vector<Expr> &sizes,
                     const Window &window);
/// tsc.adaptive_windows: the windows of adaptive pooling, [.., sizes..] as [.., positions..,
/// longest window..]: position i of n holds elements floor(i * size / n) to ceil((i + 1) * size /
/// n), then `fill`.
Argument adaptive_windows_of(GraphBuilder &builder, const Argument &x,
                             const std::vector<Expr> &positions, const Argument &fill);

/// Windows of adaptive pooling that are all alike: position i holds `length` elements from
/// i * stride on.
struct EqualWindows {
  Expr stride, length;
};
/// Those that cut one dimension of `size` into `count`; nothing where they differ, or may. They are
/// alike where `count` divides `size`, and where one element is left over, which they share all:
/// 50 in 7 are windows of 8, 7 apart.
std::optional<EqualWindows> equal_windows(Expr size, Expr count, const symbolic::Ranges &ranges);

/// `count`, or 1 where it may be 0: a divisor of sizes for tensors that then hold nothing.
Expr at_least_one(Expr count, const symbolic::Ranges &ranges);

/// first, first + 1, ..: `count` dimensions.
Argument dimensions_from(size_t first, size_t count);

} // namespace tsc::ops
