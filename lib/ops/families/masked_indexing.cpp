// Indexing where a mask says whether an index counts: what PyTorch's decompositions of resampling
// and padding make.
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

namespace tsc::ops {
namespace {

/// The indices, each held to its dimension: those that the mask leaves out may be anything.
Arguments held_indices(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  Arguments held;
  size_t dim = 0;
  for (const Argument &index : *call["indices"].list()) {
    if (!index.node()) {
      held.push_back(index);
    } else {
      if (dim >= self.layout.rank())
        call.fail("TSC-O129",
                  call.node().target + ": more indices than the " +
                      std::to_string(self.layout.rank()) + " dimensions",
                  "pass an index a dimension at most");
      const Expr size = self.layout.sizes[dim];
      held.push_back(builder.call("aten.clamp.default", {index, size_argument(Expr(0) - size),
                                                         size_argument(size - Expr(1))}));
    }
    ++dim;
  }
  return held;
}

/// self[indices] where the mask holds, else `fill`.
Argument masked_index(GraphBuilder &builder, const Call &call) {
  const TensorMeta self = call.tensor("self");
  Argument taken = builder.call("aten.index.Tensor", {call["self"], held_indices(builder, call)});
  return convert(builder, builder.call(kWhere, {call["mask"], taken, call["fill"]}), self.dtype);
}

/// self, and the values added where the mask holds.
Argument masked_index_put(GraphBuilder &builder, const Call &call) {
  const TensorMeta values = call.tensor("values");
  Argument added =
      convert(builder, builder.call(kWhere, {call["mask"], call["values"], 0}), values.dtype);
  return builder.call("aten.index_put.default",
                      {call["self"], held_indices(builder, call), added, true});
}

} // namespace

void add_masked_indexing(Table &table) {
  table
      .add("_unsafe_masked_index(Tensor self, Tensor mask, Tensor?[] indices, Scalar fill) -> "
           "Tensor")
      .decompose(masked_index);
  table
      .add("_unsafe_masked_index_put_accumulate(Tensor self, Tensor mask, Tensor?[] indices, "
           "Tensor values) -> Tensor")
      .decompose(masked_index_put);
}

} // namespace tsc::ops
