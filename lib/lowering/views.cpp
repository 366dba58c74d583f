#include "lowering/views.h"

#include "graph/data_symbols.h"
#include "graph/indicators.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "support/diagnostic.h"
#include "symbolic/loops.h"

namespace tsc::lowering {

namespace {

/// The strided layout of a value on realized storage; nothing if it is seen through an index map.
/// Fixes the strides of the storage.
std::optional<Layout> layout_of(Context &context, const TensorValue &value) {
  if (!value.storage->realized() || value.index)
    return std::nullopt;
  if (value.layout)
    return value.layout;
  decide_layout(context, value.storage->buffer);
  return context.module.buffer(value.storage->buffer).layout;
}

TensorValue with_layout(const TensorValue &value, Layout layout) {
  TensorValue result = value;
  result.sizes = layout.sizes;
  result.layout = std::move(layout);
  result.index.reset();
  return result;
}

/// `value` at an index that the data decides: no strides can say it, and later indices go through
/// it.
TensorValue read_by_data(Context &context, const TensorValue &value, std::vector<Expr> sizes,
                         const std::vector<Expr> &index) {
  Operand whole = operand_of(context, value);
  if (value.index) { // the number is held to this dimension, not to the one behind the map
    whole = {view_loop(context, value.dtype, value.sizes, whole),
             identity_index(value.sizes.size())};
  }
  return tensor_of(context, view_loop(context, value.dtype, sizes, reindexed(whole, index)));
}

/// The view whose dimension k is dimension kept[k] of `value`, or a new one of size 1 (kNone).
TensorValue rearrange(Context &context, const TensorValue &value,
                      const std::vector<uint32_t> &kept) {
  if (const std::optional<Layout> base = layout_of(context, value)) {
    Layout layout;
    layout.offset = base->offset;
    for (uint32_t k : kept) {
      layout.sizes.push_back(k == kNone ? Expr(1) : base->sizes[k]);
      layout.strides.push_back(k == kNone ? Expr(1) : base->strides[k]);
    }
    return with_layout(value, std::move(layout));
  }
  std::vector<Expr> sizes, index(value.sizes.size(), Expr(0));
  for (size_t i = 0; i < kept.size(); ++i) {
    sizes.push_back(kept[i] == kNone ? Expr(1) : value.sizes[kept[i]]);
    if (kept[i] != kNone)
      index[kept[i]] = ir::variable(i);
  }
  return index_map(context, value, std::move(sizes), index);
}

} // namespace

size_t dimension_of(int64_t dimension, size_t rank) {
  const auto count = static_cast<int64_t>(std::max<size_t>(rank, 1)); // 0 and -1 name rank 0, too
  const int64_t wrapped = dimension < 0 ? dimension + count : dimension;
  support::require(wrapped >= 0 && wrapped < count, "lowering", "dimension out of range");
  return static_cast<size_t>(wrapped);
}

TensorValue index_map(Context &context, const TensorValue &value, std::vector<Expr> sizes,
                      const std::vector<Expr> &index) {
  if (value.layout) { // of a strided view: through a load of its own
    Operand viewed = reindexed(operand_of(context, value), index);
    return tensor_of(context, view_loop(context, value.dtype, sizes, std::move(viewed)));
  }
  TensorValue result = value;
  result.sizes = std::move(sizes);
  if (value.index)
    result.index = reindexed({kNone, *value.index}, index).index;
  else
    result.index = index;
  return result;
}

TensorValue expand(Context &context, const TensorValue &value, std::vector<Expr> sizes) {
  const size_t skip = sizes.size() - value.sizes.size();
  for (size_t k = 0; k < value.sizes.size(); ++k)
    if (sizes[skip + k].is_integer(-1))
      sizes[skip + k] = value.sizes[k];
  if (sizes == value.sizes)
    return value;
  for (size_t k = 0; k < value.sizes.size(); ++k)
    if (!value.sizes[k].is_integer(1))
      assume_equal(context, value.sizes[k], sizes[skip + k]);
  if (const std::optional<Layout> base = layout_of(context, value)) {
    Layout layout;
    layout.offset = base->offset;
    layout.strides.assign(skip, Expr(0));
    for (size_t k = 0; k < value.sizes.size(); ++k)
      layout.strides.push_back(value.sizes[k].is_integer(1) ? Expr(0) : base->strides[k]);
    layout.sizes = std::move(sizes);
    return with_layout(value, std::move(layout));
  }
  std::vector<Expr> index;
  for (size_t k = 0; k < value.sizes.size(); ++k)
    index.push_back(value.sizes[k].is_integer(1) ? Expr(0) : ir::variable(skip + k));
  return index_map(context, value, std::move(sizes), index);
}

TensorValue permute(Context &context, const TensorValue &value,
                    const std::vector<size_t> &dimensions) {
  return rearrange(context, value, std::vector<uint32_t>(dimensions.begin(), dimensions.end()));
}

TensorValue unsqueeze(Context &context, const TensorValue &value, size_t dimension) {
  std::vector<uint32_t> kept;
  for (uint32_t k = 0; k <= value.sizes.size(); ++k)
    kept.push_back(k < dimension ? k : k == dimension ? kNone : k - 1);
  return rearrange(context, value, kept);
}

TensorValue squeeze(Context &context, const TensorValue &value,
                    const std::vector<size_t> &dimensions) {
  std::vector<bool> dropped(value.sizes.size(), false);
  for (size_t dimension : dimensions)
    dropped[dimension] = value.sizes[dimension].is_integer(1);
  std::vector<uint32_t> kept;
  for (uint32_t k = 0; k < value.sizes.size(); ++k)
    if (!dropped[k])
      kept.push_back(k);
  return rearrange(context, value, kept);
}

TensorValue slice(Context &context, const TensorValue &value, size_t dimension, Expr start,
                  Expr size, Expr step) {
  if (start.is_integer(0) && step.is_integer(1) && size == value.sizes[dimension])
    return value;
  if (std::optional<Layout> layout =
          graph::depends_on_data(start) ? std::nullopt : layout_of(context, value)) {
    layout->offset += layout->strides[dimension] * start;
    layout->strides[dimension] *= step;
    layout->sizes[dimension] = size;
    return with_layout(value, std::move(*layout));
  }
  std::vector<Expr> sizes = value.sizes;
  sizes[dimension] = size;
  std::vector<Expr> index = identity_index(sizes.size());
  index[dimension] = index[dimension] * step + start;
  return graph::depends_on_data(start) ? read_by_data(context, value, std::move(sizes), index)
                                       : index_map(context, value, std::move(sizes), index);
}

Expr in_front(const Context &context, Expr index, Expr size) {
  return symbolic::known_nonnegative(index, *context.ranges) ? index
                                                             : index + size * graph::less(index, 0);
}

TensorValue unfold(Context &context, const TensorValue &value, size_t dimension, Expr count,
                   Expr size, Expr step) {
  if (std::optional<Layout> layout = layout_of(context, value)) {
    layout->sizes[dimension] = count;
    layout->sizes.push_back(size);
    layout->strides.push_back(layout->strides[dimension]);
    layout->strides[dimension] *= step;
    return with_layout(value, std::move(*layout));
  }
  std::vector<Expr> sizes = value.sizes, index = identity_index(value.sizes.size());
  sizes[dimension] = count;
  sizes.push_back(size);
  index[dimension] = index[dimension] * step + ir::variable(value.sizes.size());
  return index_map(context, value, std::move(sizes), index);
}

TensorValue select(Context &context, const TensorValue &value, size_t dimension, Expr index) {
  if (graph::depends_on_data(index)) {
    const auto place = static_cast<std::ptrdiff_t>(dimension);
    std::vector<Expr> sizes = value.sizes, element = identity_index(value.sizes.size() - 1);
    sizes.erase(sizes.begin() + place);
    element.insert(element.begin() + place, index);
    return read_by_data(context, value, std::move(sizes), element);
  }
  const TensorValue one = slice(context, value, dimension, index, 1, 1);
  return squeeze(context, one, {dimension});
}

namespace {

/// A value that lies as `base`, in other sizes, as strides; nothing where that takes a copy.
std::optional<Layout> reshaped_strides(const Context &context, const Layout &base,
                                       const std::vector<Expr> &sizes) {
  Layout layout;
  layout.sizes = sizes;
  if (base.is_contiguous()) {
    layout.offset = base.offset;
    layout.strides = tensor::contiguous_strides(sizes);
    return layout;
  }
  const std::vector<Expr> variables = identity_index(sizes.size());
  symbolic::Ranges ranges = *context.ranges;
  for (size_t k = 0; k < sizes.size(); ++k)
    ranges.set_size(variables[k], sizes[k]);
  const std::vector<Expr> index = symbolic::reshape_index(base.sizes, sizes, variables);
  const Expr linear = symbolic::simplify(base.linear_index(index), ranges);
  if (!symbolic::is_affine(linear, variables))
    return std::nullopt;
  layout.strides = symbolic::stride_vars(linear, variables);
  layout.offset = symbolic::offset_of(linear, variables);
  return layout;
}

/// Decides how a stored value that is to be seen in other sizes lies: as what it reads does if
/// these sizes are strides on that (an image with its channels innermost as a list of pixels), else
/// contiguous. Of few elements always contiguous, as most who read them want it: a launch that
/// copies them takes longer than reading them across.
void decide_layout_for(Context &context, BufferId id, const std::vector<Expr> &sizes) {
  const ir::Buffer before = context.module.buffer(id);
  if (before.layout_kind != ir::LayoutKind::flexible)
    return;
  constexpr int64_t kFew = 1 << 16;
  const auto elements = symbolic::numel(before.layout.sizes).as_integer();
  if (context.policy.layouts_follow_reads && !(elements && *elements <= kFew)) {
    decide_layout(context, id);
    if (reshaped_strides(context, context.module.buffer(id).layout, sizes))
      return;
    context.module.buffers[id] = before;
  }
  decide_layout_as(context, id, tensor::contiguous_strides(before.layout.sizes));
}

} // namespace

TensorValue reshape(Context &context, const TensorValue &value, std::vector<Expr> sizes) {
  if (sizes == value.sizes)
    return value;
  if (value.storage->realized() && !value.is_view())
    decide_layout_for(context, value.storage->buffer, sizes);
  if (const std::optional<Layout> base = layout_of(context, value))
    if (std::optional<Layout> layout = reshaped_strides(context, *base, sizes))
      return with_layout(value, std::move(*layout));
  const std::vector<Expr> index =
      symbolic::reshape_index(value.sizes, sizes, identity_index(sizes.size()));
  return index_map(context, value, std::move(sizes), index);
}

} // namespace tsc::lowering
