#include "tensor/layout.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <numeric>

namespace tsc::tensor {

namespace {

/// The factor that a dimension contributes to the strides outside of it: PyTorch counts 0 as 1.
Expr stride_factor(Expr size) {
  if (size.is_integer())
    return std::max<int64_t>(size.value(), 1);
  return size;
}

} // namespace

Expr Layout::linear_index(std::span<const Expr> index) const {
  support::require(index.size() == strides.size(), "Layout::linear_index", "rank differs");
  Expr result = offset;
  for (size_t i = 0; i < index.size(); ++i)
    result += index[i] * strides[i];
  return result;
}

Expr Layout::storage_size() const {
  Expr last = offset;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i].is_integer(0))
      return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return last + 1;
}

bool Layout::is_contiguous() const {
  for (Expr size : sizes)
    if (size.is_integer(0))
      return true;
  Expr expected = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i].is_integer(1))
      continue;
    if (strides[i] != expected)
      return false;
    expected = expected * sizes[i];
  }
  return true;
}

std::vector<Expr> contiguous_strides(std::span<const Expr> sizes) {
  std::vector<Expr> strides(sizes.size());
  Expr stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = stride;
    stride = stride * stride_factor(sizes[i]);
  }
  return strides;
}

Layout contiguous_layout(std::vector<Expr> sizes) {
  Layout layout;
  layout.strides = contiguous_strides(sizes);
  layout.sizes = std::move(sizes);
  layout.offset = 0;
  return layout;
}

std::vector<Expr> strides_in_order(std::span<const Expr> sizes, std::span<const size_t> order) {
  support::require(order.size() == sizes.size(), "strides_in_order", "rank differs");
  std::vector<Expr> strides(sizes.size());
  Expr stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    size_t dimension = order[i];
    support::require(dimension < sizes.size(), "strides_in_order", "order is no permutation");
    strides[dimension] = stride;
    stride = stride * stride_factor(sizes[dimension]);
  }
  return strides;
}

namespace {

/// Provably larger: integers by value, a multiple by a symbolic or larger factor through known
/// ranges (sizes are at least 1 where a stride holds them).
bool larger_stride(Expr a, Expr b) {
  if (a == b)
    return false;
  if (a.is_integer() && b.is_integer())
    return a.value() > b.value();
  symbolic::Ranges ranges;
  for (Expr e : {a, b})
    for (Expr symbol : symbolic::free_symbols(e))
      ranges.set(symbol, {2, INT64_MAX});
  return symbolic::known_less(b, a, ranges);
}

} // namespace

std::vector<size_t> stride_order(std::span<const Expr> strides) {
  std::vector<size_t> order(strides.size());
  std::iota(order.begin(), order.end(), size_t{0});
  // Insertion sort: stable, and sound although strides of unrelated symbols do not compare.
  for (size_t i = 1; i < order.size(); ++i)
    for (size_t j = i; j > 0 && larger_stride(strides[order[j]], strides[order[j - 1]]); --j)
      std::swap(order[j], order[j - 1]);
  return order;
}

} // namespace tsc::tensor
