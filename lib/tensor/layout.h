// Strided layouts with symbolic sizes. Units: elements, never bytes, unless a name says bytes.
#pragma once

#include "symbolic/expr.h"
#include "tensor/dtype.h"

#include <vector>

namespace tsc::tensor {

using symbolic::Expr;

struct Layout {
  std::vector<Expr> sizes;
  std::vector<Expr> strides; // one a size; elements
  Expr offset;               // elements from the start of the storage
  friend bool operator==(const Layout &, const Layout &) = default;

  size_t rank() const { return sizes.size(); }
  /// offset + sum(index_i * stride_i).
  Expr linear_index(std::span<const Expr> index) const;
  /// Elements from the first to one past the last reachable (0 if any size is 0).
  Expr storage_size() const;
  /// Row-major with no gaps; strides of size-1 dimensions are ignored.
  bool is_contiguous() const;
};

/// Row-major strides; a size-0 or size-1 dimension counts as 1 in the product, as in PyTorch.
std::vector<Expr> contiguous_strides(std::span<const Expr> sizes);
Layout contiguous_layout(std::vector<Expr> sizes);
/// Strides of a dense tensor whose dimensions nest in `order`, outermost first.
std::vector<Expr> strides_in_order(std::span<const Expr> sizes, std::span<const size_t> order);
/// Dimensions from largest to smallest stride (stable; ties keep position).
std::vector<size_t> stride_order(std::span<const Expr> strides);

} // namespace tsc::tensor
