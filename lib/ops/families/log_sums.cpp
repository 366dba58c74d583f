#include "ops/families/log_sums.h"

#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"

#include <cmath>

namespace tsc::ops {

Argument complex_log_add_exp(GraphBuilder &builder, const Argument &a, const Argument &b) {
  const auto real = [&](const Argument &x) { return builder.call("tsc.real_part.default", {x}); };
  const auto exponential = [&](const Argument &x) { return builder.call("aten.exp.default", {x}); };
  const Argument size_a = real(a), size_b = real(b);
  const Argument less = builder.call("aten.lt.Tensor", {size_a, size_b});
  const Argument low = builder.call(kWhere, {less, a, b}),
                 high = builder.call(kWhere, {less, b, a});
  const Argument distance = builder.call(kSub, {low, high});
  const Argument tail = builder.call("aten.log1p.default", {exponential(distance)});
  const Argument sum = builder.call(kAdd, {tail, high});
  const Argument nothing = builder.call("aten.eq.Scalar", {real(distance), -INFINITY});
  Argument result = builder.call(kWhere, {nothing, high, sum});
  // Both infinite: no distance says anything.
  const Argument equal = builder.call("aten.eq.Tensor", {size_a, size_b});
  const Argument infinite = builder.call("aten.isinf.default", {size_a});
  const Argument both = builder.call("aten.logical_and.default", {equal, infinite});
  const Argument whole = builder.call(kAdd, {exponential(low), exponential(high)});
  const Argument negative = builder.call("aten.lt.Scalar", {size_a, 0.0});
  const Argument of_infinite =
      builder.call(kWhere, {negative, low, builder.call("aten.log.default", {whole})});
  result = builder.call(kWhere, {both, of_infinite, result});
  const Argument nan_a = builder.call("aten.isnan.default", {a}),
                 nan_b = builder.call("aten.isnan.default", {b});
  const Argument nan = builder.call("aten.logical_or.default", {nan_a, nan_b});
  return builder.call("aten.masked_fill.Scalar", {result, nan, graph::Complex{NAN, NAN}});
}

Argument complex_log_cumulative_sum(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  const size_t rank = self.layout.rank();
  const auto dim = static_cast<int64_t>(normalize_dim(call, call.integer("dim"), rank));
  const Argument zero =
      builder.call("aten.full.default", {Arguments{}, graph::Complex{-INFINITY, 0}},
                   {{"dtype", self.dtype}, {"device", self.device}}); // the logarithm of 0
  Argument x = complex_log_add_exp(builder, call["self"], zero);
  if (rank == 0)
    return x;
  const Expr size = self.layout.sizes[static_cast<size_t>(dim)];
  if (!size.is_integer())
    call.refuse("TSC-O152",
                call.node().target + " of complex numbers over a dimension of size " +
                    symbolic::print(size),
                "export the graph with a fixed size of this dimension");
  const auto cut = [&](int64_t from, int64_t to) {
    return builder.call("aten.slice.Tensor", {x, dim, from, to, 1});
  };
  // Element i holds the sum of the last 1, 2, 4, ... elements up to it.
  for (int64_t step = 1; step < size.value(); step *= 2) {
    const Argument later =
        complex_log_add_exp(builder, cut(step, size.value()), cut(0, size.value() - step));
    x = builder.call("aten.cat.default", {Arguments{cut(0, step), later}, dim});
  }
  return x;
}

} // namespace tsc::ops
