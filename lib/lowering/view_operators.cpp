// Operators that yield views of their input.
#include "graph/data_symbols.h"
#include "lowering/build.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/views.h"
#include "ops/families/slice_bounds.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::lowering {

namespace {

NodeValue view(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  return reshape(context, value, result_meta(context).layout.sizes);
}

NodeValue permute_operator(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  std::vector<size_t> dimensions;
  for (int64_t dimension : call.integers("dims"))
    dimensions.push_back(dimension_of(dimension, value.sizes.size()));
  return permute(context, value, dimensions);
}

NodeValue expand_operator(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  return expand(context, value, result_meta(context).layout.sizes);
}

NodeValue unsqueeze_operator(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  return unsqueeze(context, value, dimension_argument(call, "dim", value.sizes.size() + 1));
}

NodeValue squeeze_operator(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  std::vector<size_t> dimensions;
  if (!value.sizes.empty())
    for (int64_t dimension : call.integers("dim"))
      dimensions.push_back(dimension_of(dimension, value.sizes.size()));
  return squeeze(context, value, dimensions);
}

/// Where a slice starts: one that the data decides lies in the dimension.
Expr start_of(const Context &context, const ops::Call &call, const std::vector<Expr> &sizes) {
  const Expr start = call.has("start") ? call.size("start") : Expr(0);
  if (!graph::depends_on_data(start))
    return ops::slice_bounds(call, sizes).start;
  const size_t dimension = dimension_argument(call, "dim", sizes.size());
  return symbolic::bounds(start, *context.ranges).high < 0 ? start + sizes[dimension] : start;
}

NodeValue slice_operator(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  const size_t dimension = dimension_argument(call, "dim", value.sizes.size());
  const Expr start = start_of(context, call, value.sizes);
  return slice(context, value, dimension, start, result_meta(context).layout.sizes[dimension],
               call.size("step"));
}

NodeValue select_operator(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  const size_t dimension = dimension_argument(call, "dim", value.sizes.size());
  Expr index = call.size("index");
  if (symbolic::bounds(index, *context.ranges).high < 0)
    index = index + value.sizes[dimension];
  else if (graph::depends_on_data(index) && !index.is_symbol()) // a symbol alone wraps
    index = in_front(context, index, value.sizes[dimension]);
  return select(context, value, dimension, index);
}

NodeValue diagonal(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  const size_t rank = value.sizes.size();
  const size_t first = dimension_argument(call, "dim1", rank);
  const size_t second = dimension_argument(call, "dim2", rank);
  const int64_t offset = call.integer("offset");
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  std::vector<Expr> index;
  size_t next = 0;
  const Expr along = ir::variable(rank - 2); // the diagonal is the last dimension
  for (size_t k = 0; k < rank; ++k)
    if (k == first)
      index.push_back(along + (offset < 0 ? -offset : 0));
    else if (k == second)
      index.push_back(along + (offset > 0 ? offset : 0));
    else
      index.push_back(ir::variable(next++));
  return index_map(context, value, sizes, index);
}

NodeValue unfold_operator(Context &context, const ops::Call &call) {
  const TensorValue value = tensor_argument(context, call, "self");
  if (value.sizes.empty())
    return slice(context, unsqueeze(context, value, 0), 0, 0, call.size("size"), 1);
  const size_t dimension = dimension_argument(call, "dimension", value.sizes.size());
  return unfold(context, value, dimension, result_meta(context).layout.sizes[dimension],
                call.size("size"), call.size("step"));
}

NodeValue as_strided(Context &context, const ops::Call &call) {
  TensorValue value = tensor_argument(context, call, "self");
  const ir::BufferView base = realized_view(context, value);
  TensorValue result = tensor_of_buffer(context, base.buffer);
  Layout layout;
  layout.sizes = call.sizes("size");
  layout.strides = call.sizes("stride");
  layout.offset = call.has("storage_offset") ? call.size("storage_offset") : base.layout.offset;
  result.sizes = layout.sizes;
  result.layout = std::move(layout);
  return result;
}

NodeValue get_item(Context &context, const ops::Call &call) {
  const graph::NodeRef *node = call["value"].node();
  const auto *list =
      node ? std::get_if<std::vector<TensorValue>>(&context.values[node->id]) : nullptr;
  const int64_t index = call.integer("index");
  support::require(
      list != nullptr && index >= 0 && index < static_cast<int64_t>(list->size()), "lowering",
      "result " + std::to_string(index) + " of " + call.node().name + " is not computed");
  return (*list)[static_cast<size_t>(index)];
}

} // namespace

void add_views(Registry &registry) {
  registry["view"] = view;
  registry["permute"] = permute_operator;
  registry["expand"] = expand_operator;
  registry["unsqueeze"] = unsqueeze_operator;
  registry["squeeze"] = squeeze_operator;
  for (const char *key : {"view_as_real", "view_as_complex"}) // values are memory of parts
    registry[key] = [](Context &context, const ops::Call &call) -> NodeValue {
      return tensor_argument(context, call, "self");
    };
  registry["slice"] = slice_operator;
  registry["select"] = select_operator;
  registry["diagonal"] = diagonal;
  registry["unfold"] = unfold_operator;
  registry["as_strided"] = as_strided;
  registry["getitem"] = get_item;
}

} // namespace tsc::lowering
