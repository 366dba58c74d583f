#include "ops/families/likely_size.h"

#include <algorithm>

namespace tsc::ops {

using symbolic::Expr;

Expr likely_size(Expr size, const graph::Graph &graph) {
  constexpr int64_t kLikely = 8, kMost = int64_t{1} << 20;
  if (size.is_integer())
    return size;
  symbolic::Ranges likely;
  for (const Expr symbol : symbolic::free_symbols(size))
    likely.set(symbol, {kLikely, kLikely});
  for (const graph::SymbolRange &range : graph.symbols)
    if (const int64_t value =
            std::clamp(range.hint.value_or(kLikely), std::max<int64_t>(range.low, 0),
                       std::max<int64_t>(range.high, 0));
        symbolic::depends_on(size, range.symbol))
      likely.set(range.symbol, {value, value});
  return Expr(std::clamp<int64_t>(symbolic::bounds(size, likely).low, 1, kMost));
}

bool has_likely_size(Expr size, const graph::Graph &graph) {
  const std::vector<Expr> symbols = symbolic::free_symbols(size);
  return std::all_of(symbols.begin(), symbols.end(), [&](Expr symbol) {
    return std::any_of(graph.symbols.begin(), graph.symbols.end(), [&](const auto &range) {
      return range.symbol == symbol && range.hint.has_value();
    });
  });
}

} // namespace tsc::ops
