// The two halves of a dimension.
#pragma once

#include "graph/indicators.h"
#include "ops/families/assertions.h"
#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"

#include <utility>

namespace tsc::ops {

/// `x`, of the sizes of call["self"], in halves of dimension call["dim"]. Throws TSC-O027 where its
/// size is odd; one that is a symbol is held to be even when it is known.
inline std::pair<Argument, Argument> halves_of(GraphBuilder &builder, const Call &call,
                                               const Argument &x) {
  const std::vector<Expr> sizes = call.tensor("self").layout.sizes;
  const size_t dim = normalize_dim(call, call.integer("dim"), sizes.size());
  const Expr size = dim < sizes.size() ? sizes[dim] : Expr(1);
  const Expr half = symbolic::simplify(symbolic::floor_div(size, Expr(2)), call.ranges());
  const std::string what =
      call.node().target + " of a dimension of odd size " + symbolic::print(size);
  if (size.is_integer() && size.value() % 2 != 0)
    call.fail("TSC-O027", what, "make its size even");
  if (!same_size(size, Expr(2) * half, call.ranges()))
    assert_condition(builder,
                     decided(builder, graph::negation(graph::unequal(size, Expr(2) * half))), what);
  const auto part = [&](Expr start, Expr end) {
    return builder.call("aten.slice.Tensor", {x, static_cast<int64_t>(dim), size_argument(start),
                                              size_argument(end), 1});
  };
  return {part(Expr(0), half), part(half, Expr(2) * half)};
}

} // namespace tsc::ops
