#include "lowering/tuple_call.h"

#include "lowering/build.h"
#include "lowering/realize.h"

namespace tsc::lowering {

NodeValue tuple_call(Context &context, ir::Extern call,
                     const std::vector<graph::TensorMeta> &results) {
  const BufferId tuple = register_buffer(context, {}, DType::u8, context.device);
  context.module.buffers[tuple].layout_kind = ir::LayoutKind::multi_output;
  register_operation(context, std::move(call), {tuple});
  std::vector<TensorValue> values;
  for (size_t item = 0; item < results.size(); ++item) {
    ir::Extern getter;
    getter.library = ir::Library::tuple_item;
    getter.ir_class = "MultiOutput";
    getter.item = item;
    ir::BufferView view;
    view.buffer = tuple;
    view.dtype = results[item].dtype;
    getter.inputs = {view};
    const graph::TensorMeta &meta = results[item];
    const BufferId buffer = register_buffer(context, meta.layout.sizes, meta.dtype, context.device);
    decide_layout_as(context, buffer, meta.layout.strides);
    register_operation(context, std::move(getter), {buffer});
    values.push_back(tensor_of_buffer(context, buffer));
  }
  return values;
}

} // namespace tsc::lowering
