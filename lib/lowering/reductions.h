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

/// Whether a reduction of a number of elements below the policy's threshold is written out where it
/// is used: not if its elements are read back beside it, as softmax and norms do (every element
/// would read all of its row), or if they take what a reduction of their row yields. Such
/// reductions are one kernel that has a row's elements at hand.
bool is_written_out(Context &context, const ReductionSpec &spec);

/// reduce(), always as operations.
std::vector<TensorValue> register_reduction(Context &context, const ReductionSpec &spec);

/// Reducing `dimensions` of `value`: sizes and inputs of the spec.
ReductionSpec reduction_over(Context &context, const TensorValue &value,
                             const std::vector<size_t> &dimensions, bool keep_dimensions);

} // namespace tsc::lowering
