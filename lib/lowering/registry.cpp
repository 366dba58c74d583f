#include "lowering/registry.h"

#include "lowering/build.h"
#include "lowering/views.h"
#include "support/diagnostic.h"

namespace tsc::lowering {

const Registry &registry() {
  static const Registry all = [] {
    Registry result;
    add_elementwise(result);
    add_conversions(result);
    add_views(result);
    add_creation(result);
    add_random(result);
    add_reductions(result);
    add_scans(result);
    add_combine_scans(result);
    add_products(result);
    add_gathers(result);
    add_scatters(result);
    add_joins(result);
    add_ordering(result);
    add_solvers(result);
    add_windows(result);
    add_attention(result);
    add_attention_gradients(result);
    add_collectives(result);
    add_control_flow(result);
    add_data_numbers(result);
    add_checks(result);
    add_user_kernels(result);
    add_alignments(result);
    add_row_sums(result);
    add_recurrences(result);
    add_selections(result);
    return result;
  }();
  return all;
}

namespace {

TensorValue number_value(Context &context, const tensor::Scalar &number) {
  const DType dtype = std::holds_alternative<bool>(number)      ? DType::boolean
                      : std::holds_alternative<int64_t>(number) ? DType::i64
                                                                : DType::f64;
  return tensor_of(context, constant_loop(context, number, dtype));
}

} // namespace

TensorValue tensor_value(Context &context, const ops::Call &call, const graph::Argument &argument) {
  if (const graph::NodeRef *node = argument.node()) {
    const NodeValue &value = context.values[node->id];
    if (const TensorValue *tensor = std::get_if<TensorValue>(&value))
      return *tensor;
    throw support::InternalError("lowering", call.node().name,
                                 "an argument of " + call.node().target + " is not a tensor");
  }
  if (const bool *b = std::get_if<bool>(&argument.value))
    return number_value(context, *b);
  if (const int64_t *i = std::get_if<int64_t>(&argument.value))
    return number_value(context, *i);
  if (const double *d = std::get_if<double>(&argument.value))
    return number_value(context, *d);
  if (const Expr *e = std::get_if<Expr>(&argument.value))
    return tensor_of(context, index_operand(context, *e, DType::i64, {}).node);
  throw support::InternalError("lowering", call.node().name,
                               "an argument of " + call.node().target +
                                   " is neither a tensor nor a number");
}

TensorValue tensor_argument(Context &context, const ops::Call &call, std::string_view parameter) {
  return tensor_value(context, call, call[parameter]);
}

std::vector<TensorValue> tensor_arguments(Context &context, const ops::Call &call,
                                          std::string_view parameter) {
  std::vector<TensorValue> result;
  if (const graph::Argument::List *list = call[parameter].list())
    for (const graph::Argument &argument : *list)
      result.push_back(tensor_value(context, call, argument));
  return result;
}

size_t dimension_argument(const ops::Call &call, std::string_view parameter, size_t rank) {
  return dimension_of(call.integer(parameter), rank);
}

const graph::TensorMeta &result_meta(const Context &context) {
  const graph::Node &node = context.graph.node(context.current);
  const graph::Value *value = node.value ? &*node.value : nullptr;
  while (value != nullptr && value->list() != nullptr && !value->list()->empty())
    value = &value->list()->front();
  if (value == nullptr || value->tensor() == nullptr)
    throw support::InternalError("lowering", node.name, "the node has no tensor value");
  return *value->tensor();
}

} // namespace tsc::lowering
