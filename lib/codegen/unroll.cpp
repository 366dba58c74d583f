#include "codegen/plan_steps.h"

#include <algorithm>

namespace tsc::codegen {

Expr unused_variable(const KernelGraph &graph) {
  const auto is_taken = [&](Expr symbol) {
    return std::find(graph.element_variables.begin(), graph.element_variables.end(), symbol) !=
           graph.element_variables.end();
  };
  size_t number = 0;
  while (is_taken(symbolic::symbol(symbolic::SymbolSort::dimension, number)))
    ++number;
  return symbolic::symbol(symbolic::SymbolSort::dimension, number);
}

std::optional<Unrolled> unroll(const KernelGraph &graph, size_t loop, size_t most_values) {
  const Expr variable = graph.element_variables[loop];
  const int64_t length = graph.element_sizes[loop].as_integer().value();
  Unrolled result{graph, {}};
  KernelGraph &unrolled = result.graph;
  unrolled.values.clear();
  unrolled.stores.clear();
  for (std::vector<Expr> *list : {&unrolled.element_variables, &unrolled.element_sizes})
    list->erase(list->begin() + static_cast<std::ptrdiff_t>(loop));
  for (const Value &source : graph.values) {
    bool varies = symbolic::depends_on(source.index, variable);
    const auto copy_of = [&](ValueId id, size_t element) {
      const std::vector<ValueId> &copies = result.copies[id];
      return copies[copies.size() == 1 ? 0 : element];
    };
    for (const ValueId arg : source.args)
      varies = varies || result.copies[arg].size() > 1;
    varies = varies || (source.guard != ir::kNone && result.copies[source.guard].size() > 1);
    if (varies && source.op == ir::Op::set_indirect) // its symbol stands in indices
      return std::nullopt;
    std::vector<ValueId> copies;
    for (int64_t element = 0; element < (varies ? length : 1); ++element) {
      Value value = source;
      for (ValueId &arg : value.args)
        arg = copy_of(arg, static_cast<size_t>(element));
      if (value.guard != ir::kNone)
        value.guard = copy_of(value.guard, static_cast<size_t>(element));
      value.index = symbolic::simplify(
          symbolic::substitute(value.index, {{variable, Expr(element)}}), graph.ranges);
      copies.push_back(static_cast<ValueId>(unrolled.values.size()));
      unrolled.values.push_back(std::move(value));
    }
    result.copies.push_back(std::move(copies));
  }
  for (const ValueId store : graph.stores)
    unrolled.stores.insert(unrolled.stores.end(), result.copies[store].begin(),
                           result.copies[store].end());
  if (unrolled.values.size() > most_values)
    return std::nullopt;
  return result;
}

} // namespace tsc::codegen
