// How kernels of attention read their operands.
#pragma once

#include "lowering/build.h"
#include "lowering/realize.h"

namespace tsc::lowering {

/// Rank 4 (a head of its own for what has no batch; of batches of batches one list), rows of
/// 16-byte words: the last stride 1, everything else multiples of 8 elements. Copied where it lies
/// otherwise.
ir::BufferView rows_operand(Context &context, TensorValue value);
/// The mask over the sizes of `scores`, [batch, heads, rows, columns] or less or with one batch
/// more before them, what it repeats with stride 0.
ir::BufferView mask_operand(Context &context, TensorValue value, const std::vector<Expr> &scores);

} // namespace tsc::lowering
