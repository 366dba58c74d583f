// Integers that the data decides: what item() reads. Exports name them u0, u1, ...; the symbols of
// sizes have other names.
#pragma once

#include "symbolic/expr.h"

#include <algorithm>

namespace tsc::graph {

inline bool is_data_symbol(symbolic::Expr symbol) {
  const std::string &name = symbol.name();
  return name.size() > 1 && name[0] == 'u' &&
         name.find_first_not_of("0123456789", 1) == std::string::npos;
}
inline bool depends_on_data(symbolic::Expr e) {
  if (e.is_integer())
    return false;
  const std::vector<symbolic::Expr> symbols = symbolic::free_symbols(e);
  return std::any_of(symbols.begin(), symbols.end(), is_data_symbol);
}

} // namespace tsc::graph
