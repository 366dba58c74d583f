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
/// tsc.covering_windows, the same without the taps that fall between windows: x as [.., sizes..,
/// most..], the windows that hold an element, of which there are at most kernel / stride, rounded
/// up. Which tap of its windows an element has follows from where it stands. tsc.overlaps where the
/// window's numbers are symbols.
Argument covering_windows_of(GraphBuilder &builder, const Argument &x,
                             const std::vector<Expr> &sizes, const Window &window);

/// tsc.interleave: parts [N, C, q..], one for each place that an element may have between two
/// strides, the last dimension's places first, as [N, C, sizes..]: element first + i * stride is
/// element i of the part of `first`, of which it has as many as fit. So many parts more are further
/// samples. Channels lie innermost. Preconditions: `strides` are numbers, sizes at least as large.
Argument interleaved(GraphBuilder &builder, const std::vector<Argument> &parts,
                     const std::vector<Expr> &sizes, const std::vector<Expr> &strides);

/// How an element of one dimension finds the windows that hold it. Their taps are
/// `taps_apart` apart.
struct Covering {
  int64_t taps_apart = 1; // stride / gcd(stride, dilation)
  int64_t divisor = 1;    // gcd(stride, dilation): elements at no multiple of it have no window
  int64_t inverse = 0;    // of dilation / divisor, modulo taps_apart
  int64_t most = 1;       // windows that hold one element
};
/// Preconditions: kernel, stride and dilation are positive.
Covering covering_of(int64_t kernel, int64_t stride, int64_t dilation);
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
