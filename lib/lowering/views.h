// Views: the same elements under other indices. On realized storage they stay strided layouts,
// elsewhere they are index maps.
#pragma once

#include "lowering/context.h"

namespace tsc::lowering {

TensorValue expand(Context &context, const TensorValue &value, std::vector<Expr> sizes);
TensorValue permute(Context &context, const TensorValue &value,
                    const std::vector<size_t> &dimensions);
TensorValue reshape(Context &context, const TensorValue &value, std::vector<Expr> sizes);
TensorValue slice(Context &context, const TensorValue &value, size_t dimension, Expr start,
                  Expr size, Expr step);
TensorValue select(Context &context, const TensorValue &value, size_t dimension, Expr index);
TensorValue unsqueeze(Context &context, const TensorValue &value, size_t dimension);
/// An index that the data decides, counted from the front where it is negative: not held to
/// anything yet.
Expr in_front(const Context &context, Expr index, Expr size);

/// `count` windows of `size` elements of one dimension, `step` apart; the windows' elements are a
/// last dimension.
TensorValue unfold(Context &context, const TensorValue &value, size_t dimension, Expr count,
                   Expr size, Expr step);
/// Drops dimensions of size 1.
TensorValue squeeze(Context &context, const TensorValue &value,
                    const std::vector<size_t> &dimensions);
/// Element (i...) of the result is element (index(i...)) of `value`, one expression per dimension
/// of `value`.
TensorValue index_map(Context &context, const TensorValue &value, std::vector<Expr> sizes,
                      const std::vector<Expr> &index);

/// A dimension argument: negative ones count from the end.
size_t dimension_of(int64_t dimension, size_t rank);

} // namespace tsc::lowering
