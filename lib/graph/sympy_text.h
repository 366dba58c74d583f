// Size expressions as torch.export writes them. Internal to lib/graph.
#pragma once

#include "symbolic/expr.h"

#include <optional>
#include <string_view>

namespace tsc::graph {

/// Reads sympy's srepr form, "Mul(Integer(4), Symbol('s0', positive=True, integer=True))", and what
/// symbolic::parse reads. Throws UserError TSC-G016 (bad_input) with the column on a syntax error,
/// or a name that `symbol_of` does not know, (unsupported) on a function that has no integer
/// counterpart; TSC-G090 on overflow.
symbolic::Expr parse_sympy(std::string_view text, const symbolic::SymbolReader &symbol_of);

/// "and", "or" or "xor" of two integers' bits, as Python has it for negative ones too; nothing
/// unless one of them is a number (below 2^60 in magnitude) and the operation is one of these.
std::optional<symbolic::Expr> bitwise(std::string_view operation, symbolic::Expr a,
                                      symbolic::Expr b);

} // namespace tsc::graph
