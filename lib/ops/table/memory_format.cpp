#include "ops/table/memory_format.h"

#include "ops/table/shape_rules.h"

#include <algorithm>

namespace tsc::ops {

bool is_channels_last(const tensor::Layout &layout) {
  return (layout.rank() == 4 || layout.rank() == 5) && !layout.is_contiguous() &&
         channels_last_strides(layout.sizes) == layout.strides;
}

Value value_like(const TensorMeta &input, DType dtype, std::vector<Expr> sizes) {
  const bool kept = is_channels_last(input.layout) && sizes.size() == input.layout.rank();
  std::vector<Expr> strides =
      kept ? channels_last_strides(sizes) : tensor::contiguous_strides(sizes);
  return tensor_value(dtype, std::move(sizes), std::move(strides), input.device);
}

Argument in_layout(GraphBuilder &builder, const Argument &x, const tensor::Layout &layout) {
  const TensorMeta meta = builder.meta(x);
  bool same = meta.layout.offset == layout.offset;
  for (size_t i = 0; i < layout.rank(); ++i)
    same = same && (layout.sizes[i].is_integer(1) || layout.strides[i] == meta.layout.strides[i]);
  if (same || symbolic::numel(layout.sizes).is_integer(0))
    return x;
  // Nested as asked for: the dimensions in that order, copied, and back.
  const std::vector<size_t> order = tensor::stride_order(layout.strides);
  std::vector<size_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[order[i]] = i;
  const bool sorted = std::is_sorted(order.begin(), order.end());
  const Argument ordered =
      sorted ? x : builder.call("aten.permute.default", {x, ints_argument(order)});
  const Argument copied = builder.call("aten.clone.default", {ordered},
                                       {{"memory_format", graph::MemoryFormat::contiguous}});
  return sorted ? copied : builder.call("aten.permute.default", {copied, ints_argument(inverse)});
}

Argument contiguous(GraphBuilder &builder, const Argument &x) {
  return in_layout(builder, x, tensor::contiguous_layout(builder.meta(x).layout.sizes));
}

Decomposition in_format_of(std::string_view parameter, Decomposition decomposition) {
  return [parameter, decomposition = std::move(decomposition)](GraphBuilder &builder,
                                                               const Call &call) {
    Argument result = decomposition(builder, call);
    Arguments list = result.list() != nullptr ? *result.list() : Arguments{result};
    const TensorMeta meta = builder.meta(list.front());
    const Value like = value_like(call.tensor(parameter), meta.dtype, meta.layout.sizes);
    list.front() = in_layout(builder, list.front(), like.tensor()->layout);
    return result.list() != nullptr ? Argument(list) : list.front();
  };
}

Decomposition contiguously(Decomposition decomposition) {
  return [decomposition = std::move(decomposition)](GraphBuilder &builder, const Call &call) {
    return contiguous(builder, decomposition(builder, call));
  };
}

} // namespace tsc::ops
