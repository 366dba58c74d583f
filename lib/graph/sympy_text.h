// Size expressions as torch.export writes them. Internal to lib/graph.
#pragma once

#include "symbolic/expr.h"

#include <string_view>

namespace tsc::graph {

/// Reads sympy's srepr form, "Mul(Integer(4), Symbol('s0', positive=True, integer=True))", and what
/// symbolic::parse reads. Throws UserError TSC-G016 (bad_input) with the column on a syntax error,
/// or a name that `symbol_of` does not know, (unsupported) on a function that has no integer
/// counterpart; TSC-G090 on overflow.
symbolic::Expr parse_sympy(std::string_view text, const symbolic::SymbolReader &symbol_of);

} // namespace tsc::graph
