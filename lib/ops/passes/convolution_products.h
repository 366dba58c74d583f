// The matrix products that convolutions are made of: which dimensions of values and weights are
// rows, terms and columns.
#pragma once

#include "ops/families/convolution.h"
#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"

namespace tsc::ops {

/// Calls views by name, sizes first.
class Shaper {
public:
  explicit Shaper(GraphBuilder &builder) : builder_(builder) {}
  Argument reshape(const Argument &x, const std::vector<Expr> &sizes) const {
    return builder_.call("aten.reshape.default", {x, sizes_argument(sizes)});
  }
  /// The same as an index map, whatever the strides that were recorded: how a value lies is decided
  /// where it is stored, and lowering copies what a library cannot read.
  Argument reshape_in_place(const Argument &x, const std::vector<Expr> &sizes) const {
    return builder_.emit("aten.view.default", {x, sizes_argument(sizes)});
  }
  Argument permute(const Argument &x, const std::vector<size_t> &order) const {
    return builder_.call("aten.permute.default", {x, ints_argument(order)});
  }
  Argument expand(const Argument &x, const std::vector<Expr> &sizes) const {
    return builder_.call("aten.expand.default", {x, sizes_argument(sizes)});
  }
  Argument product(const Argument &a, const Argument &b) const {
    return builder_.call("aten.mm.default", {a, b});
  }
  /// [batch, ..] @ [batch, ..]; a batch of one is a plain product.
  Argument batched_product(const Argument &a, const Argument &b) const {
    const std::vector<Expr> x = builder_.meta(a).layout.sizes, y = builder_.meta(b).layout.sizes;
    if (!x[0].is_integer(1))
      return builder_.call("aten.bmm.default", {a, b});
    const Argument one = product(reshape(a, {x[1], x[2]}), reshape(b, {y[1], y[2]}));
    return reshape(one, {Expr(1), x[1], y[2]});
  }

private:
  GraphBuilder &builder_;
};

/// `order` followed by `count` dimensions from `first` on.
inline std::vector<size_t> then(std::vector<size_t> order, size_t first, size_t count) {
  for (size_t i = 0; i < count; ++i)
    order.push_back(first + i);
  return order;
}

inline std::vector<Expr> then(std::vector<Expr> sizes, const std::vector<Expr> &more) {
  sizes.insert(sizes.end(), more.begin(), more.end());
  return sizes;
}

/// x [N, C, sizes..] times w [O, C], as [N, O, sizes..]; `channels_last`: the channels stay
/// innermost.
Argument product_of_views(const Shaper &shaper, const Argument &x, const Argument &w,
                          const Convolution &c, bool channels_last);

/// The columns of all groups times their weights. windows [N, C, positions.., kernel..].
Argument product_of_columns(const Shaper &shaper, const Argument &windows, const Argument &w,
                            const Convolution &c, const std::vector<Expr> &positions);

/// The same with channels innermost, one group: [N * positions, taps * C] @ [taps * C, O]. Where
/// columns are a copy in any case, the terms are in the order of the weights, filled up to whole
/// runs.
Argument product_of_rows(GraphBuilder &builder, const Argument &windows, const Argument &w,
                         const Convolution &c, const std::vector<Expr> &positions);

/// The same of several groups, which are the product's batch: [G, N * positions, taps * C / G] @
/// [G, taps * C / G, O / G].
Argument product_of_group_rows(const Shaper &shaper, const Argument &windows, const Argument &w,
                               const Convolution &c, const std::vector<Expr> &positions);
/// The same of one tap at every position, whose rows lie in x [N, C, positions..].
Argument product_of_group_views(const Shaper &shaper, const Argument &x, const Argument &w,
                                const Convolution &c);

} // namespace tsc::ops
