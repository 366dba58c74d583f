#include "ops/memory_format.h"

#include "ops/shape_rules.h"

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
  const graph::MemoryFormat format = !is_channels_last(layout) ? graph::MemoryFormat::contiguous
                                     : layout.rank() == 4      ? graph::MemoryFormat::channels_last
                                                          : graph::MemoryFormat::channels_last_3d;
  return builder.call("aten.clone.default", {x}, {{"memory_format", format}});
}

} // namespace tsc::ops
