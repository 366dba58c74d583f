// Tensors from nothing: constants and ranges.
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"

namespace tsc::lowering {

namespace {

NodeValue filled(Context &context, const tensor::Scalar &value) {
  const graph::TensorMeta &result = result_meta(context);
  LoopNode node;
  node.op = Op::constant;
  node.dtype = result.dtype;
  node.sizes = result.layout.sizes;
  node.constant = tensor::cast_scalar(value, result.dtype);
  return tensor_of(context, add_loop(context, std::move(node)));
}

NodeValue full(Context &context, const ops::Call &call) {
  if (const Expr *fill = std::get_if<Expr>(&call["fill_value"].value)) {
    const graph::TensorMeta &result = result_meta(context);
    LoopNode node;
    node.op = Op::index_expr;
    node.dtype = DType::i64;
    node.sizes = result.layout.sizes;
    node.expr = *fill;
    return convert(context, tensor_of(context, add_loop(context, std::move(node))), result.dtype);
  }
  if (call.value_of(call["fill_value"])) { // a number that the data decides
    const graph::TensorMeta &result = result_meta(context);
    const TensorValue number =
        convert(context, tensor_argument(context, call, "fill_value"), result.dtype);
    return tensor_of(context, view_loop(context, result.dtype, result.layout.sizes,
                                        broadcast_operand(context, number, result.layout.sizes)));
  }
  return filled(context, call.scalar("fill_value"));
}

/// Its contents are nobody's business: zeros, so that results never depend on what memory held.
/// Where operators write in place it is memory that they fill.
NodeValue empty(Context &context, const ops::Call &) {
  NodeValue zeros = filled(context, int64_t{0});
  if (!context.in_place_operators)
    return zeros;
  TensorValue &value = std::get<TensorValue>(zeros);
  Storage &storage = *value.storage;
  storage.buffer = register_buffer(context, storage.sizes, storage.dtype, storage.device);
  decide_layout_as(context, storage.buffer, result_meta(context).layout.strides);
  ir::Pointwise allocation;
  allocation.value = {storage.loop, identity_index(storage.sizes.size())};
  allocation.allocates_only = true;
  register_operation(context, std::move(allocation), {storage.buffer});
  storage.loop = kNone;
  return zeros;
}

NodeValue iota(Context &context, const ops::Call &call) {
  const graph::TensorMeta &result = result_meta(context);
  LoopNode node;
  node.op = Op::index_expr;
  node.dtype = result.dtype;
  node.sizes = result.layout.sizes;
  node.expr = call.size("start") + ir::variable(0) * call.size("step");
  return tensor_of(context, add_loop(context, std::move(node)));
}

} // namespace

void add_creation(Registry &registry) {
  registry["full"] = full;
  registry["empty"] = empty;
  registry["iota"] = iota;
}

} // namespace tsc::lowering
