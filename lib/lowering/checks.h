// What run-time indices are held to (ir::Module::checks).
#pragma once

#include "lowering/context.h"
#include "ops/table/operator.h"

namespace tsc::lowering {

/// Whether negative indices count from the end of the dimension, as they do in x[index], or are out
/// of range, as they are for gather.
enum class NegativeIndex : uint8_t { wraps, fails };

/// A check of the indices that `argument` of the current node holds.
uint32_t index_check(Context &context, const graph::Argument &argument, NegativeIndex negative);
/// A check with this message.
uint32_t value_check(Context &context, std::string message, NegativeIndex negative);
/// Where the elements of `argument` come from, as the user knows it: "input 'ids'", "weight
/// 'table'", "node 'sub'".
std::string check_subject(const Context &context, const graph::Argument &argument);
/// Element ir::operand_value(1) of 0, 1, ..., size - 1: what a checked value is as a view.
Operand any_position(Context &context, Expr size);

/// `index`, which `check` is about to hold to `extent`, as it was before tsc.check_range held it to
/// the same: `check` is then that one.
Operand unchecked(const Context &context, const Operand &index, Expr extent, uint32_t &check);

} // namespace tsc::lowering
