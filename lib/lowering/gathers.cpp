// Operators that read at run-time indices.
#include "lowering/build.h"
#include "lowering/checks.h"
#include "lowering/indices.h"
#include "lowering/registry.h"
#include "lowering/views.h"

namespace tsc::lowering {

RuntimeIndices runtime_indices(Context &context, const ops::Call &call, const TensorValue &self,
                               std::span<const Expr> index_sizes, size_t first_dimension) {
  RuntimeIndices result;
  const graph::Argument::List &list = *call["indices"].list();
  for (size_t k = 0; k < self.sizes.size(); ++k) {
    if (k >= list.size() || list[k].is_none()) {
      result.dimensions.push_back(std::nullopt);
      continue;
    }
    const TensorValue index = tensor_value(context, call, list[k]);
    // The index tensors' common shape takes the dimensions from first_dimension on.
    Operand operand = broadcast_operand(context, index, index_sizes);
    std::vector<Expr> shift;
    for (size_t j = 0; j < index_sizes.size(); ++j)
      shift.push_back(ir::variable(first_dimension + j));
    result.operands.push_back(reindexed(operand, shift));
    result.extents.push_back(self.sizes[k]);
    result.checks.push_back(index_check(context, list[k], NegativeIndex::wraps));
    result.dimensions.push_back(result.operands.size());
  }
  return result;
}

IndexedShape indexed_shape(Context &context, const ops::Call &call, const TensorValue &self) {
  const graph::Argument::List &list = *call["indices"].list();
  IndexedShape shape;
  std::optional<size_t> first, last;
  size_t indexed = 0;
  for (size_t k = 0; k < list.size(); ++k) {
    if (list[k].is_none())
      continue;
    first = first.value_or(k);
    last = k;
    ++indexed;
    const std::vector<Expr> sizes = tensor_value(context, call, list[k]).sizes;
    if (sizes.size() > shape.index_sizes.size()) {
      shape.index_sizes.insert(shape.index_sizes.begin(), sizes.size() - shape.index_sizes.size(),
                               Expr(1));
    }
    const size_t skip = shape.index_sizes.size() - sizes.size();
    for (size_t j = 0; j < sizes.size(); ++j)
      if (!sizes[j].is_integer(1))
        shape.index_sizes[skip + j] = sizes[j];
  }
  // Adjacent indexed dimensions are replaced where they stand, others come first.
  const bool adjacent = first && *last - *first + 1 == indexed;
  shape.first_dimension = adjacent ? *first : 0;
  for (size_t k = 0; k < self.sizes.size(); ++k) {
    const bool whole = k >= list.size() || list[k].is_none();
    const bool before = whole && k < shape.first_dimension;
    shape.positions.push_back(!whole ? std::nullopt : std::optional<size_t>(shape.kept));
    shape.kept += whole ? 1 : 0;
    shape.kept_before += before ? 1 : 0;
  }
  for (std::optional<size_t> &position : shape.positions)
    if (position && *position >= shape.kept_before)
      *position += shape.index_sizes.size();
  return shape;
}

namespace {

NodeValue embedding(Context &context, const ops::Call &call) {
  const TensorValue weight = tensor_argument(context, call, "weight");
  const TensorValue indices = tensor_argument(context, call, "indices");
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  std::vector<Expr> prefix;
  for (size_t k = 0; k < indices.sizes.size(); ++k)
    prefix.push_back(ir::variable(k));
  const Operand index = reindexed(operand_of(context, indices), prefix);
  const Operand row =
      reindexed(operand_of(context, weight),
                std::vector<Expr>{ir::operand_value(1), ir::variable(sizes.size() - 1)});
  return tensor_of(context,
                   view_loop(context, weight.dtype, sizes, row, {index}, {weight.sizes[0]},
                             {index_check(context, call["indices"], NegativeIndex::fails)}));
}

NodeValue index(Context &context, const ops::Call &call) {
  const TensorValue self = tensor_argument(context, call, "self");
  const IndexedShape shape = indexed_shape(context, call, self);
  const RuntimeIndices indices =
      runtime_indices(context, call, self, shape.index_sizes, shape.first_dimension);
  std::vector<Expr> at;
  for (size_t k = 0; k < self.sizes.size(); ++k) {
    at.push_back(indices.dimensions[k] ? ir::operand_value(*indices.dimensions[k])
                                       : ir::variable(*shape.positions[k]));
  }
  const Operand element = reindexed(operand_of(context, self), at);
  return tensor_of(context, view_loop(context, self.dtype, result_meta(context).layout.sizes,
                                      element, indices.operands, indices.extents, indices.checks));
}

NodeValue gather(Context &context, const ops::Call &call) {
  const TensorValue self = tensor_argument(context, call, "self");
  const TensorValue indices = tensor_argument(context, call, "index");
  const std::vector<Expr> &sizes = result_meta(context).layout.sizes;
  if (self.sizes.empty()) { // one element: the index is 0
    return tensor_of(context,
                     view_loop(context, self.dtype, sizes, operand_of(context, self),
                               {operand_of(context, indices)}, {Expr(1)},
                               {index_check(context, call["index"], NegativeIndex::fails)}));
  }
  const size_t dimension = dimension_argument(call, "dim", self.sizes.size());
  std::vector<Expr> at = identity_index(sizes.size());
  at[dimension] = ir::operand_value(1);
  const Operand element = reindexed(operand_of(context, self), at);
  return tensor_of(context, view_loop(context, self.dtype, sizes, element,
                                      {operand_of(context, indices)}, {self.sizes[dimension]},
                                      {index_check(context, call["index"], NegativeIndex::fails)}));
}

} // namespace

void add_gathers(Registry &registry) {
  registry["embedding"] = embedding;
  registry["index"] = index;
  registry["gather"] = gather;
}

} // namespace tsc::lowering
