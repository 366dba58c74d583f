// Integers that the data decides: what item() reads. Exports name them u0, u1, ...
#pragma once

#include "symbolic/expr.h"

#include <algorithm>

namespace tsc::graph {

inline bool is_data_symbol(symbolic::Expr symbol) {
  return symbol.is_symbol(symbolic::SymbolSort::data);
}
inline bool depends_on_data(symbolic::Expr e) {
  if (e.is_integer())
    return false;
  const std::vector<symbolic::Expr> symbols = symbolic::free_symbols(e);
  return std::any_of(symbols.begin(), symbols.end(), is_data_symbol);
}

} // namespace tsc::graph
