// Building blocks of the loop DAG.
#pragma once

#include "lowering/context.h"

namespace tsc::lowering {

/// variable(0), ..., variable(rank - 1).
std::vector<Expr> identity_index(size_t rank);

/// Adds a node whose origin is the graph node that is being lowered.
LoopId add_loop(Context &context, LoopNode node);
/// A new unrealized tensor over `loop`'s domain.
TensorValue tensor_of(Context &context, LoopId loop);
/// The tensor whose storage is `buffer`.
TensorValue tensor_of_buffer(Context &context, BufferId buffer);

/// `value` as an operand, its index over variable(k) of the value's own dimensions.
Operand operand_of(Context &context, const TensorValue &value);
/// What follows takes two sizes to be one: asserted of them when they are known, unless it can be
/// proved. Sizes that the data decides are held to the memory they index.
void assume_equal(Context &context, Expr a, Expr b);
/// The same of what calls took to be one.
void assume_equal(Context &context, const graph::EqualSizes &sizes);
/// The same, broadcast to `sizes`: its index is over the dimensions of `sizes`.
Operand broadcast_operand(Context &context, const TensorValue &value, std::span<const Expr> sizes);
/// `inner` with variable(k) replaced by index[k].
Operand reindexed(const Operand &inner, std::span<const Expr> index);

LoopId constant_loop(Context &context, const tensor::Scalar &value, DType dtype);
/// A constant (rank 0) as operand of a node of any domain.
Operand constant_operand(Context &context, const tensor::Scalar &value, DType dtype);
/// The value of an index expression over the variables of the node that uses it, whose domain is
/// `sizes`.
Operand index_operand(Context &context, Expr expr, DType dtype, std::span<const Expr> sizes);
/// An elementwise node over `sizes`; operands' indices are over `sizes` already.
LoopId elementwise(Context &context, Op op, DType dtype, std::span<const Expr> sizes,
                   std::vector<Operand> operands);
/// The same node as an operand of another one over the same domain.
Operand elementwise_operand(Context &context, Op op, DType dtype, std::span<const Expr> sizes,
                            std::vector<Operand> operands);
/// where(mask, value, elsewhere), `value` evaluated only where `mask` holds. All over `sizes`.
Operand masked_operand(Context &context, DType dtype, std::span<const Expr> sizes, Operand mask,
                       Operand value, const tensor::Scalar &elsewhere);
/// `viewed`, its index mentioning ir::operand_value(k) of `run_time`[k - 1], over `sizes`. These
/// are held to `extents` by `checks` (checks.h).
LoopId view_loop(Context &context, DType dtype, std::span<const Expr> sizes, Operand viewed,
                 std::vector<Operand> run_time = {}, std::vector<Expr> extents = {},
                 const std::vector<uint32_t> &checks = {});

/// Where everything is computed, whatever device the graph names: a program runs on one.
tensor::Device result_device(const Context &context);

/// `value` in `dtype`; the same value if it has that dtype already.
TensorValue convert(Context &context, const TensorValue &value, DType dtype);
/// `value` rounded to its own dtype if it is a half type that would be computed in f32 here: what
/// comparisons and other discontinuous consumers read, so that ints and bools come out as
/// PyTorch's.
TensorValue rounded(Context &context, const TensorValue &value);

} // namespace tsc::lowering
