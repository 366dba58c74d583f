// Lists of index tensors, as aten.index and aten.index_put take them.
#pragma once

#include "lowering/context.h"
#include "ops/table/operator.h"

namespace tsc::lowering {

/// Shape of x[indices]: `index_sizes`, the index tensors' common shape, stands at dimension
/// `first_dimension` of the result; dimension k of x that is not indexed stands at positions[k].
struct IndexedShape {
  std::vector<Expr> index_sizes;
  size_t first_dimension = 0;
  std::vector<std::optional<size_t>> positions; // one a dimension of x; nothing for indexed ones
  size_t kept = 0, kept_before = 0; // dimensions of x not indexed; those before first_dimension
};
IndexedShape indexed_shape(Context &context, const ops::Call &call, const TensorValue &self);

struct RuntimeIndices {
  std::vector<Operand> operands; // operand_value(1), ... over the indexed result
  std::vector<Expr> extents;     // one an operand
  std::vector<uint32_t> checks;  // of them
  std::vector<std::optional<size_t>>
      dimensions; // of x: number of its operand_value; nothing: whole
};
RuntimeIndices runtime_indices(Context &context, const ops::Call &call, const TensorValue &self,
                               std::span<const Expr> index_sizes, size_t first_dimension);

} // namespace tsc::lowering
