// Reductions of loop values: when they become operations, and when plain elementwise values.
#pragma once

#include "lowering/context.h"

namespace tsc::lowering {

struct ReductionSpec {
  ir::ReductionKind kind = ir::ReductionKind::sum;
  DType dtype = DType::f32;        // of the result
  DType source_dtype = DType::f32; // of the inputs
  std::vector<Expr> sizes;         // of the result
  std::vector<Expr> reduction_sizes;
  std::vector<Operand> inputs; // indices over the result's variables, then the reduction's
};

/// One tensor for each value of the tuple that the reduction yields (one for most kinds).
std::vector<TensorValue> reduce(Context &context, const ReductionSpec &spec);

/// The same, always as operations.
std::vector<TensorValue> register_reduction(Context &context, const ReductionSpec &spec);

/// Reducing `dimensions` of `value`: sizes and inputs of the spec.
ReductionSpec reduction_over(Context &context, const TensorValue &value,
                             const std::vector<size_t> &dimensions, bool keep_dimensions);

} // namespace tsc::lowering
