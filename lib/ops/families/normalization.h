// What the normalizations share: statistics in f32 or wider, parameters over channels.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

struct Normalized {
  Argument values; // (x - mean) * rstd, f32 or wider
  Argument mean, variance, rstd;
};

/// `x` over `dims`, which the statistics keep: the variance is biased, rstd = 1 / sqrt(variance +
/// eps).
Normalized normalize(GraphBuilder &builder, const Argument &x, const std::vector<size_t> &dims,
                     double eps);
/// x * weight + bias, where either may be None.
Argument scale_and_shift(GraphBuilder &builder, Argument x, const Argument &weight,
                         const Argument &bias);
/// A vector over the channels as [C, 1, 1, ...] so that it broadcasts over [N, C, ...]; None stays
/// None.
Argument over_channels(GraphBuilder &builder, const Argument &vector, size_t rank);

} // namespace tsc::ops
