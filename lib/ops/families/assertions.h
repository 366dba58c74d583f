// What must hold while a graph runs.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// (condition, message, last): `last` is looked at after the others.
inline constexpr std::string_view kAssert = "tsc.assert.default";
/// (tensor, symbol): the integer symbol is the tensor's value.
inline constexpr std::string_view kDefine = "tsc.define.default";

/// Emits tsc.assert unless the condition is known to hold: a bool, an expression that is 1 or 0, or
/// a bool tensor of one element. Returns None.
Argument assert_condition(GraphBuilder &builder, const Argument &condition, std::string message);

/// True or False where the ranges of sizes decide it, else the expression. What depends on data is
/// never decided: its ranges are what the assertions promise.
Argument decided(GraphBuilder &builder, Expr condition);

/// Whether `e` mentions a size that a node of `graph` itself defines (kDefine): no one outside of
/// it knows that.
bool mentions_own_size(const Graph &graph, Expr e);

} // namespace tsc::ops
