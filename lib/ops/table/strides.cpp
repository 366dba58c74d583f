// PyTorch's choice of strides for results.
#include "ops/table/shape_rules.h"

#include <algorithm>
#include <numeric>

namespace tsc::ops {

using symbolic::Ranges;
using tensor::Layout;

namespace {

/// -1, 0, 1; 0 also when the order is not known.
int compare(Expr a, Expr b, const Ranges &ranges) {
  if (a == b)
    return 0;
  if (a.is_integer() && b.is_integer())
    return a.value() < b.value() ? -1 : 1;
  if (symbolic::known_less_equal(a, b, ranges))
    return -1;
  return symbolic::known_less_equal(b, a, ranges) ? 1 : 0;
}

/// 1: dimension a must be outside b; -1: inside; 0: no operand says.
int should_swap(size_t a, size_t b, const std::vector<Expr> &sizes,
                const std::vector<std::vector<Expr>> &strides, const Ranges &ranges) {
  for (const std::vector<Expr> &stride : strides) {
    if (stride[a].is_integer(0) || stride[b].is_integer(0))
      continue; // broadcast here
    int order = compare(stride[a], stride[b], ranges);
    if (order != 0)
      return order;
    if (compare(sizes[a], sizes[b], ranges) > 0)
      return 1;
  }
  return 0;
}

/// Strides of `layout` seen as `sizes`: 0 where it is broadcast.
std::vector<Expr> broadcast_strides(const Layout &layout, const std::vector<Expr> &sizes) {
  std::vector<Expr> strides(sizes.size(), Expr(0));
  size_t offset = sizes.size() - layout.rank();
  for (size_t i = 0; i < layout.rank(); ++i)
    if (!(layout.sizes[i].is_integer(1) && !sizes[offset + i].is_integer(1)))
      strides[offset + i] = layout.strides[i];
  return strides;
}

bool is_channels_last(const Layout &layout) {
  if (layout.rank() != 4)
    return false;
  std::vector<Expr> expected = channels_last_strides(layout.sizes);
  for (size_t i = 0; i < 4; ++i)
    if (!layout.sizes[i].is_integer(1) && expected[i] != layout.strides[i])
      return false;
  return true;
}

/// Same-shaped operands: contiguous, channels last, or all dense with the same strides.
std::optional<std::vector<Expr>> fast_strides(const std::vector<Expr> &sizes,
                                              const std::vector<const Layout *> &tensors,
                                              const Ranges &ranges) {
  bool contiguous = true, channels_last = true, same_dense = true;
  for (const Layout *tensor : tensors) {
    if (tensor->sizes != sizes)
      return std::nullopt;
    contiguous = contiguous && tensor->is_contiguous();
    channels_last = channels_last && is_channels_last(*tensor);
    same_dense = same_dense && tensor->strides == tensors[0]->strides &&
                 is_non_overlapping_and_dense(*tensor, ranges);
  }
  if (contiguous)
    return tensor::contiguous_strides(sizes);
  if (channels_last)
    return channels_last_strides(sizes);
  if (same_dense)
    return tensors[0]->strides;
  return std::nullopt;
}

} // namespace

std::vector<size_t> iteration_order(const std::vector<Expr> &sizes,
                                    const std::vector<std::vector<Expr>> &strides,
                                    const Ranges &ranges) {
  std::vector<size_t> order(sizes.size());
  for (size_t i = 0; i < order.size(); ++i)
    order[i] = order.size() - 1 - i;
  for (size_t i = 1; i < order.size(); ++i) {
    size_t moving = i;
    for (size_t j = i; j-- > 0;) {
      int swap = should_swap(order[j], order[moving], sizes, strides, ranges);
      if (swap < 0)
        break;
      if (swap > 0) {
        std::swap(order[j], order[moving]);
        moving = j;
      }
    }
  }
  return order;
}

std::vector<Expr> elementwise_strides(const std::vector<Expr> &sizes,
                                      const std::vector<const Layout *> &tensors,
                                      const Ranges &ranges) {
  if (tensors.empty())
    return tensor::contiguous_strides(sizes);
  if (std::optional<std::vector<Expr>> fast = fast_strides(sizes, tensors, ranges))
    return *fast;
  std::vector<std::vector<Expr>> strides;
  strides.reserve(tensors.size());
  for (const Layout *tensor : tensors)
    strides.push_back(broadcast_strides(*tensor, sizes));
  std::vector<size_t> order = iteration_order(sizes, strides, ranges);
  bool row_major = true;
  for (size_t i = 0; i < order.size(); ++i)
    row_major = row_major && order[i] == order.size() - 1 - i;
  if (row_major)
    return tensor::contiguous_strides(sizes);
  std::vector<Expr> result(sizes.size(), Expr(1));
  Expr next(1);
  for (size_t dim : order) {
    result[dim] = next;
    next *= sizes[dim];
  }
  return result;
}

std::vector<Expr> channels_last_strides(const std::vector<Expr> &sizes) {
  auto at_least_one = [&](size_t dim) { return sizes[dim].is_integer(0) ? Expr(1) : sizes[dim]; };
  std::vector<Expr> strides(sizes.size(), Expr(1));
  Expr next = at_least_one(1);
  for (size_t i = sizes.size(); i-- > 2;) {
    strides[i] = next;
    next *= at_least_one(i);
  }
  strides[0] = next;
  return strides;
}

bool is_non_overlapping_and_dense(const Layout &layout, const Ranges &ranges) {
  if (layout.is_contiguous())
    return true;
  std::vector<size_t> order(layout.rank());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    bool small_a = layout.sizes[a].is_integer() && layout.sizes[a].value() < 2;
    bool small_b = layout.sizes[b].is_integer() && layout.sizes[b].value() < 2;
    if (small_a || small_b)
      return !small_a && small_b;
    return compare(layout.strides[a], layout.strides[b], ranges) < 0;
  });
  Expr expected(1);
  for (size_t dim : order) {
    if (layout.sizes[dim].is_integer() && layout.sizes[dim].value() < 2)
      return true;
    if (layout.strides[dim] != expected)
      return false;
    expected *= layout.sizes[dim];
  }
  return true;
}

std::vector<Expr> preserved_strides(const Layout &layout, const Ranges &ranges) {
  if (is_non_overlapping_and_dense(layout, ranges))
    return layout.strides;
  std::vector<Expr> result(layout.rank(), Expr(1));
  if (layout.rank() < 2)
    return result;
  Expr next(1);
  for (size_t dim : iteration_order(layout.sizes, {layout.strides}, ranges)) {
    result[dim] = next;
    if (!(layout.sizes[dim].is_integer() && layout.sizes[dim].value() < 2))
      next *= layout.sizes[dim];
  }
  return result;
}

std::vector<Expr> strides_in_format(const Call &call, const Layout &like,
                                    graph::MemoryFormat format) {
  switch (format) {
  case graph::MemoryFormat::contiguous:
    return tensor::contiguous_strides(like.sizes);
  case graph::MemoryFormat::preserve:
    return preserved_strides(like, call.ranges());
  case graph::MemoryFormat::channels_last:
    if (like.rank() == 4)
      return channels_last_strides(like.sizes);
    break;
  case graph::MemoryFormat::channels_last_3d:
    if (like.rank() == 5)
      return tensor::strides_in_order(like.sizes, std::vector<size_t>{0, 2, 3, 4, 1});
    break;
  }
  call.fail("TSC-O023",
            call.node().target + ": the memory format needs another rank than " +
                std::to_string(like.rank()),
            "use channels_last for 4 dimensions, channels_last_3d for 5");
}

std::optional<std::vector<Expr>> view_strides(const Layout &layout, const std::vector<Expr> &sizes,
                                              const Ranges &ranges) {
  std::vector<Expr> result(sizes.size(), Expr(1));
  for (Expr size : layout.sizes) {
    if (size.is_integer(0)) { // no elements: any strides do
      if (layout.sizes == sizes)
        return layout.strides;
      return tensor::contiguous_strides(sizes);
    }
  }
  if (layout.rank() == 0)
    return result;
  if (layout.is_contiguous()) // also where nothing proves that both have as many elements
    return tensor::contiguous_strides(sizes);
  // Chunks of dimensions that are contiguous among themselves, innermost first; each must be filled
  // exactly by new dimensions.
  size_t view_dim = sizes.size(); // one past the next
  Expr chunk_stride = layout.strides.back();
  Expr tensor_numel(1), view_numel(1);
  for (size_t dim = layout.rank(); dim-- > 0;) {
    tensor_numel *= layout.sizes[dim];
    bool chunk_ends =
        dim == 0 || (!layout.sizes[dim - 1].is_integer(1) &&
                     !same_size(layout.strides[dim - 1], tensor_numel * chunk_stride, ranges));
    if (!chunk_ends)
      continue;
    while (view_dim > 0 &&
           (!same_size(view_numel, tensor_numel, ranges) || sizes[view_dim - 1].is_integer(1))) {
      result[view_dim - 1] = view_numel * chunk_stride;
      view_numel *= sizes[view_dim - 1];
      --view_dim;
    }
    if (!same_size(view_numel, tensor_numel, ranges))
      return std::nullopt;
    if (dim > 0) {
      chunk_stride = layout.strides[dim - 1];
      tensor_numel = view_numel = Expr(1);
    }
  }
  if (view_dim != 0)
    return std::nullopt;
  return result;
}

} // namespace tsc::ops
