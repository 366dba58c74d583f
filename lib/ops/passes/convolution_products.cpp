#include "ops/passes/convolution_products.h"

#include "ops/passes/convolution_choice.h"

namespace tsc::ops {

namespace {

using Sizes = std::vector<Expr>;

/// What the product of columns has: samples, positions, groups; of a group channels, outputs and
/// terms.
struct ColumnSizes {
  Expr batch, count, groups, channels, outputs, terms;
};
ColumnSizes sizes_of(const Convolution &c, const Sizes &positions) {
  const Expr channels = symbolic::floor_div(c.channels(), c.groups);
  return {c.batch(),
          symbolic::numel(positions),
          c.groups,
          channels,
          symbolic::floor_div(c.outputs(), c.groups),
          channels * c.window.taps()};
}

} // namespace

Argument product_of_views(const Shaper &shaper, const Argument &x, const Argument &w,
                          const Convolution &c, bool channels_last) {
  const Sizes &sizes = c.input.layout.sizes;
  const Sizes spatial(sizes.begin() + 2, sizes.end());
  const Expr count = symbolic::numel(spatial), batch = sizes[0], outputs = c.outputs();
  const Argument matrix = shaper.reshape(w, {outputs, sizes[1]});
  if (!channels_last) {
    const Argument rows = shaper.expand(shaper.reshape(matrix, {Expr(1), outputs, sizes[1]}),
                                        {batch, outputs, sizes[1]});
    const Argument columns = shaper.reshape(x, {batch, sizes[1], count});
    return shaper.reshape(shaper.batched_product(rows, columns), then({batch, outputs}, spatial));
  }
  const size_t rank = spatial.size();
  std::vector<size_t> inner = then({0}, 2, rank);
  inner.push_back(1);
  const Argument rows =
      shaper.reshape_in_place(shaper.permute(x, inner), {batch * count, sizes[1]});
  const Argument product = shaper.product(rows, shaper.permute(matrix, {1, 0}));
  Sizes apart = then({batch}, spatial);
  apart.push_back(outputs);
  return shaper.permute(shaper.reshape(product, apart), then({0, rank + 1}, 1, rank));
}

Argument product_of_columns(const Shaper &shaper, const Argument &windows, const Argument &w,
                            const Convolution &c, const Sizes &positions) {
  const size_t rank = c.rank();
  const auto [batch, count, groups, channels, outputs, terms] = sizes_of(c, positions);
  if (groups.is_integer(1)) {
    const Argument rows =
        shaper.expand(shaper.reshape(w, {Expr(1), outputs, terms}), {batch, outputs, terms});
    const Argument columns =
        shaper.reshape(shaper.permute(windows, then(then({0, 1}, 2 + rank, rank), 2, rank)),
                       {batch, terms, count});
    return shaper.reshape(shaper.batched_product(rows, columns), then({batch, outputs}, positions));
  }
  // Groups are the batch of the product: [G, C / G * taps, N * positions].
  const Argument apart =
      shaper.reshape(windows, then(then({batch, groups, channels}, positions), c.window.kernel));
  std::vector<size_t> order = then({1, 2}, 3 + rank, rank);
  order.push_back(0);
  const Argument columns =
      shaper.reshape(shaper.permute(apart, then(order, 3, rank)), {groups, terms, batch * count});
  const Argument product =
      shaper.batched_product(shaper.reshape(w, {groups, outputs, terms}), columns);
  const Argument split = shaper.reshape(product, then({groups, outputs, batch}, positions));
  return shaper.reshape(shaper.permute(split, then({2, 0, 1}, 3, rank)),
                        then({batch, groups * outputs}, positions));
}

Argument product_of_rows(GraphBuilder &builder, const Argument &windows, const Argument &w,
                         const Convolution &c, const Sizes &positions) {
  const Shaper shaper(builder);
  const size_t rank = c.rank();
  const Expr terms = c.channels() * c.window.taps(), count = symbolic::numel(positions);
  std::vector<size_t> order = then({0}, 2, rank), inner = {0};
  const bool by_weights = copies_once(c);
  if (by_weights)
    order.push_back(1);
  order = then(order, 2 + rank, rank);
  inner = then(inner, by_weights ? 1 : 2, by_weights ? rank + 1 : rank);
  if (!by_weights) {
    order.push_back(1);
    inner.push_back(1);
  }
  const auto filled = [&](const Argument &x) {
    const int64_t more = by_weights ? more_to_runs(terms, word_of(c)) : 0;
    return more == 0 ? x : builder.call("aten.constant_pad_nd.default", {x, Arguments{0, more}, 0});
  };
  const Argument rows =
      filled(shaper.reshape(shaper.permute(windows, order), {c.batch() * count, terms}));
  const Argument matrix = filled(shaper.reshape(shaper.permute(w, inner), {c.outputs(), terms}));
  const Argument product = shaper.product(rows, shaper.permute(matrix, {1, 0}));
  Sizes apart = then({c.batch()}, positions);
  apart.push_back(c.outputs());
  return shaper.permute(shaper.reshape(product, apart), then({0, rank + 1}, 1, rank));
}

namespace {

/// rows [G, N * positions, terms] times the weights of their group, as [N, O, positions..].
Argument product_of_groups(const Shaper &shaper, const Argument &rows, const Argument &w,
                           const Convolution &c, const Sizes &positions) {
  const size_t rank = c.rank();
  const auto [batch, count, groups, channels, outputs, terms] = sizes_of(c, positions);
  std::vector<size_t> inner = then({0, 1}, 3, rank);
  inner.push_back(2);
  const Argument weights = shaper.reshape(w, then({groups, outputs, channels}, c.window.kernel));
  const Argument matrix = shaper.reshape(shaper.permute(weights, inner), {groups, outputs, terms});
  const Argument product = shaper.batched_product(rows, shaper.permute(matrix, {0, 2, 1}));
  Sizes split = then({groups, batch}, positions);
  split.push_back(outputs);
  return shaper.reshape(
      shaper.permute(shaper.reshape(product, split), then({1, 0, 2 + rank}, 2, rank)),
      then({batch, groups * outputs}, positions));
}

} // namespace

Argument product_of_group_rows(const Shaper &shaper, const Argument &windows, const Argument &w,
                               const Convolution &c, const Sizes &positions) {
  const size_t rank = c.rank();
  const auto [batch, count, groups, channels, outputs, terms] = sizes_of(c, positions);
  const Argument apart =
      shaper.reshape(windows, then(then({batch, groups, channels}, positions), c.window.kernel));
  std::vector<size_t> order = then(then({1, 0}, 3, rank), 3 + rank, rank);
  order.push_back(2);
  const Argument rows =
      shaper.reshape(shaper.permute(apart, order), {groups, batch * count, terms});
  return product_of_groups(shaper, rows, w, c, positions);
}

Argument product_of_group_views(const Shaper &shaper, const Argument &x, const Argument &w,
                                const Convolution &c) {
  const Sizes &sizes = c.input.layout.sizes, positions(sizes.begin() + 2, sizes.end());
  std::vector<size_t> inner = then({0}, 2, c.rank());
  inner.push_back(1);
  const auto [batch, count, groups, channels, outputs, terms] = sizes_of(c, positions);
  const Argument apart =
      shaper.reshape_in_place(shaper.permute(x, inner), {batch * count, groups, channels});
  return product_of_groups(shaper, shaper.permute(apart, {1, 0, 2}), w, c, positions);
}

} // namespace tsc::ops
