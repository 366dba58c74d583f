#include "codegen/attention_operands.h"

#include "scheduler/few_queries.h"
#include "support/diagnostic.h"

namespace tsc::codegen {

AttentionPlaces attention_places() {
  using symbolic::SymbolSort;
  AttentionPlaces places;
  for (size_t i = 0; i < 3; ++i)
    places.row.push_back(symbolic::symbol(SymbolSort::dimension, i));
  places.run = symbolic::symbol(SymbolSort::matrix_term);
  return places;
}

OperandText attention_operand(const ir::Module &module, const scheduler::Group &group,
                              const ir::BufferView &view, int words) {
  const AttentionPlaces places = attention_places();
  KernelGraph graph = build_kernel_graph(module, group, {.two_pass_statistics = true});
  std::vector<Expr> variables = places.row;
  variables.push_back(places.run);
  const std::vector<Expr> &sizes = view.layout.sizes;
  for (size_t k = 0; k < variables.size(); ++k)
    graph.ranges.set_size(variables[k], sizes[k]);
  const auto loops = scheduler::loops_at(view.layout, variables, graph.element_sizes, graph.ranges);
  support::require(loops.has_value(), "codegen", "keys or values are not read in order");
  symbolic::Substitution place;
  for (size_t i = 0; i < loops->size(); ++i)
    place.emplace(graph.element_variables[i], (*loops)[i]);
  graph.element_variables = variables;
  graph.element_sizes = sizes;
  for (Value &value : graph.values)
    value.index = symbolic::simplify(symbolic::substitute(value.index, place), graph.ranges);
  assign_phases(graph);
  std::optional<OperandText> text = OperandText::make(module, graph, places.row, places.run,
                                                      sizes[3].value(), words, /*may_pair=*/false);
  support::require(text.has_value() && !text->has_conditions(), "codegen",
                   "keys or values that are computed are not read in runs");
  return std::move(*text);
}

} // namespace tsc::codegen
