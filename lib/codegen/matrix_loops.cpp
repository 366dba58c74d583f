#include "codegen/matrix_loops.h"

#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::codegen {

using ir::Op;

KernelGraph over_matrix(KernelGraph graph, Expr row, Expr column, Expr rows, int64_t columns) {
  const size_t count = graph.element_variables.size();
  size_t split = count;
  Expr inside = 1;
  while (split > 0 && !inside.is_integer(columns))
    inside = inside * graph.element_sizes[--split];
  const bool apart = inside.is_integer(columns);
  symbolic::Substitution place;
  const Expr flat = row * Expr(columns) + column;
  Expr inner = 1;
  for (size_t i = count; i-- > 0;) {
    if (apart && i + 1 == split)
      inner = 1;
    const Expr from = !apart ? flat : i < split ? row : column;
    const bool outermost = i == 0 || (apart && i == split);
    const Expr size = graph.element_sizes[i];
    place.emplace(graph.element_variables[i], outermost
                                                  ? symbolic::floor_div(from, inner)
                                                  : symbolic::modular_index(from, inner, size));
    inner = inner * size;
  }
  graph.element_variables = {row, column};
  graph.element_sizes = {rows, Expr(columns)};
  graph.ranges.set_size(row, rows);
  graph.ranges.set_size(column, Expr(columns));
  for (Value &value : graph.values)
    value.index = symbolic::simplify(symbolic::substitute(value.index, place), graph.ranges);
  assign_phases(graph);
  return graph;
}

void take_first(KernelGraph &graph, Expr count) {
  support::require(!graph.element_sizes.empty() && graph.element_sizes[0] == count, "codegen",
                   "matrices of a batch are not computed one after another");
  const symbolic::Substitution first = {{graph.element_variables[0], Expr(0)}};
  for (Value &value : graph.values)
    value.index = symbolic::substitute(value.index, first);
  graph.element_variables.erase(graph.element_variables.begin());
  graph.element_sizes.erase(graph.element_sizes.begin());
}

std::optional<OneLoop> as_one_loop(const KernelGraph &graph) {
  if (graph.element_variables.size() < 2 || !graph.elements().is_integer() ||
      graph.elements().is_integer(0))
    return std::nullopt;
  OneLoop result{
      graph,
      {graph.element_variables, graph.element_sizes, {}, graph.element_variables.size() - 1}};
  KernelGraph &one = result.graph;
  const auto is_taken = [&](Expr symbol) {
    return std::find(graph.element_variables.begin(), graph.element_variables.end(), symbol) !=
           graph.element_variables.end();
  };
  size_t number = graph.element_variables.size();
  while (is_taken(symbolic::symbol(symbolic::SymbolSort::dimension, number)))
    ++number;
  const Expr variable = symbolic::symbol(symbolic::SymbolSort::dimension, number);
  symbolic::Substitution places;
  Expr inner = 1;
  for (size_t i = graph.element_variables.size(); i-- > 0;) {
    places.emplace(graph.element_variables[i],
                   i == 0 ? symbolic::floor_div(variable, inner)
                          : symbolic::modular_index(variable, inner, graph.element_sizes[i]));
    inner = inner * graph.element_sizes[i];
  }
  one.element_variables = {variable};
  one.element_sizes = {graph.elements()};
  one.ranges.set_size(variable, graph.elements());
  for (Value &value : one.values) {
    const Expr given = value.index;
    value.index = symbolic::simplify(symbolic::substitute(given, places), one.ranges);
    const Expr place = result.loops.places.emplace(value.index, given).first->second;
    size_t &first = result.loops.first;
    for (size_t i = 0; i < first; ++i)
      if (value.op != Op::store && symbolic::depends_on(place, graph.element_variables[i]))
        first = i;
  }
  const bool in_order = std::all_of(one.stores.begin(), one.stores.end(), [&](ValueId id) {
    return one[id].op == Op::store && one[id].mode == ir::StoreMode::plain &&
           !symbolic::depends_on(one[id].index - variable, variable);
  });
  const bool looks_up = std::any_of(one.values.begin(), one.values.end(), [](const Value &value) {
    return value.op == Op::set_indirect;
  });
  if (!in_order || looks_up)
    return std::nullopt;
  assign_phases(one);
  return result;
}

Expr RowParts::without(Expr e, symbolic::Ranges &ranges) {
  if (!symbolic::depends_on(e, row_))
    return e;
  const bool divides = e.kind() == symbolic::Kind::floor_div ||
                       e.kind() == symbolic::Kind::modular_index || e.kind() == symbolic::Kind::mod;
  if (!divides || symbolic::depends_on(e, term_))
    return of_operands(e, ranges);
  for (const Part &part : list_)
    if (part.value == e)
      return part.symbol;
  list_.push_back({symbolic::symbol(symbolic::SymbolSort::row, list_.size()), e});
  ranges.set(list_.back().symbol, symbolic::bounds(e, ranges));
  return list_.back().symbol;
}
Expr RowParts::of_operands(Expr e, symbolic::Ranges &ranges) {
  std::vector<Expr> operands;
  for (const Expr operand : e.operands())
    operands.push_back(without(operand, ranges));
  switch (e.kind()) {
  case symbolic::Kind::add:
    return symbolic::sum(operands);
  case symbolic::Kind::mul:
    return symbolic::product(operands);
  case symbolic::Kind::floor_div:
    return symbolic::floor_div(operands[0], operands[1]);
  case symbolic::Kind::modular_index:
    return symbolic::modular_index(operands[0], operands[1], operands[2]);
  case symbolic::Kind::mod:
    return symbolic::mod(operands[0], operands[1]);
  default:
    return e;
  }
}

} // namespace tsc::codegen
