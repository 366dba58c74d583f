// Attention that one kernel computes whole: an external call on realized, strided operands.
#include "lowering/attention_operands.h"
#include "lowering/registry.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

/// True if `e` is surely a multiple of `factor`.
bool is_multiple(const Context &context, Expr e, int64_t factor) {
  return symbolic::simplify(symbolic::mod(e, Expr(factor)), *context.ranges).is_integer(0);
}

/// Rank 4: a head of its own for what has no batch dimension.
tensor::Layout with_batch(tensor::Layout layout) {
  while (layout.rank() < 4) {
    layout.sizes.insert(layout.sizes.begin(), Expr(1));
    layout.strides.insert(layout.strides.begin(), Expr(0));
  }
  return layout;
}

} // namespace

ir::BufferView rows_operand(Context &context, TensorValue value) {
  ir::BufferView view = realized_view(context, value);
  const auto fits = [&](const tensor::Layout &layout) {
    const size_t last = layout.rank() - 1;
    bool result = is_multiple(context, layout.offset, 8) && layout.strides[last].is_integer(1);
    for (size_t k = 0; k < last; ++k)
      result =
          result && (layout.sizes[k].is_integer(1) || is_multiple(context, layout.strides[k], 8));
    return result;
  };
  if (!fits(view.layout)) {
    TensorValue dense = copy(context, value);
    decide_layout_as(context, dense.storage->buffer, tensor::contiguous_strides(dense.sizes));
    view = *strided_view(context, dense);
  }
  view.layout = with_batch(view.layout);
  return view;
}

ir::BufferView mask_operand(Context &context, TensorValue value, const tensor::Layout &query,
                            Expr columns) {
  ir::BufferView view = realized_view(context, value);
  view.layout = with_batch(view.layout);
  const std::vector<Expr> sizes = {query.sizes[0], query.sizes[1], query.sizes[2], columns};
  for (size_t k = 0; k < 4; ++k)
    if (view.layout.sizes[k].is_integer(1))
      view.layout.strides[k] = 0;
  view.layout.sizes = sizes;
  return view;
}

namespace {

NodeValue fused_attention(Context &context, const ops::Call &call) {
  ir::Extern kernel;
  kernel.kernel = "tsc.fused_attention";
  kernel.ir_class = "TemplateBuffer";
  kernel.library = ir::Library::attention;
  kernel.alpha = call.number("scale");
  kernel.causal = call.boolean("is_causal");
  if (call.node().target == "tsc.attention_parts.default")
    kernel.parts = call.integer("parts");
  for (const char *name : {"query", "key", "value"})
    kernel.inputs.push_back(rows_operand(context, tensor_argument(context, call, name)));
  if (call.has("attn_mask")) {
    const tensor::Layout query = kernel.inputs[0].layout;
    kernel.inputs.push_back(mask_operand(context, tensor_argument(context, call, "attn_mask"),
                                         query, kernel.inputs[1].layout.sizes[2]));
  }
  const graph::Value &result = *call.node().value;
  std::vector<BufferId> outputs;
  std::vector<TensorValue> values;
  const auto add = [&](const graph::TensorMeta &meta) {
    const BufferId buffer = register_buffer(context, meta.layout.sizes, meta.dtype, context.device);
    ir::Buffer &out = context.module.buffers[buffer];
    out.layout.strides = meta.layout.strides;
    out.layout_kind = ir::LayoutKind::fixed;
    outputs.push_back(buffer);
    values.push_back(tensor_of_buffer(context, buffer));
  };
  if (const graph::TensorMeta *one = result.tensor())
    add(*one);
  else
    for (const graph::Value &each : *result.list())
      add(*each.tensor());
  register_operation(context, std::move(kernel), outputs);
  if (result.tensor())
    return values[0];
  return values;
}

} // namespace

void add_attention(Registry &registry) { registry["fused_attention"] = fused_attention; }

} // namespace tsc::lowering
