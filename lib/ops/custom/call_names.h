// The expressions of a row, for one call.
#pragma once

#include "ops/custom/custom_operator.h"
#include "ops/custom/row_expression.h"

namespace tsc::ops {

/// Arguments by name: of tensors what the function will see (contiguous strides, unless the row
/// takes the tensor as it lies).
RowNames call_names(const Call &call, const CustomOperator &row);
/// The value of an expression. Throws UserError TSC-O212 where it has none.
Expr evaluated(const Call &call, const std::string &text, const RowNames &names);
/// 1 where the condition holds, else 0. Throws as evaluated does.
Expr requirement(const Call &call, const std::string &text, const RowNames &names);

} // namespace tsc::ops
