// Sizes that the data decides. What a call decides itself gets a symbol of its own, and every
// symbol that a size mentions becomes a size: the host knows it when it launches what depends on
// it. Numbers of the data that no size mentions stay numbers, which nobody waits for.
#include "ops/passes/data_sizes.h"

#include "ops/families/data_sizes.h"

#include "graph/data_symbols.h"
#include "graph/symbol_names.h"
#include "ops/families/assertions.h"
#include "ops/passes/clean_up.h"
#include "ops/passes/passes.h"
#include "ops/table/rewrite.h"
#include "ops/table/source_line.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace tsc::ops {

using graph::NodeKind;

namespace {

using SymbolSet = std::set<Expr, symbolic::ExprLess>;

/// Calls see(e) with every expression of the value.
template <class See> void see_value(Value &value, const See &see) {
  if (auto *e = std::get_if<Expr>(&value.value)) {
    see(*e);
  } else if (auto *meta = std::get_if<TensorMeta>(&value.value)) {
    for (Expr &size : meta->layout.sizes)
      see(size);
    for (Expr &stride : meta->layout.strides)
      see(stride);
    see(meta->layout.offset);
  } else if (auto *list = std::get_if<Value::List>(&value.value)) {
    for (Value &item : *list)
      see_value(item, see);
  }
}
template <class See> void see_argument(Argument &argument, const See &see) {
  if (auto *e = std::get_if<Expr>(&argument.value))
    see(*e);
  else if (auto *list = std::get_if<Argument::List>(&argument.value))
    for (Argument &item : *list)
      see_argument(item, see);
  else if (auto *dictionary = std::get_if<Argument::Dictionary>(&argument.value))
    for (auto &entry : dictionary->entries)
      see_argument(entry.second, see);
}
/// An expression that has become a number is one.
void tidy(Argument &argument) {
  if (const auto *e = std::get_if<Expr>(&argument.value); e && e->is_integer())
    argument.value = e->value();
  else if (auto *list = std::get_if<Argument::List>(&argument.value))
    std::for_each(list->begin(), list->end(), tidy);
}

/// Calls see(e) with every expression of the graph and of its subgraphs.
template <class See> void see_graph(Graph &graph, const See &see) {
  for (Node &node : graph.nodes) {
    for (Argument &argument : node.args)
      see_argument(argument, see);
    for (auto &keyword : node.kwargs)
      see_argument(keyword.second, see);
    if (node.value)
      see_value(*node.value, see);
    for (Expr &stride : node.recorded_strides)
      see(stride);
  }
  for (graph::OutputSpec &output : graph.outputs)
    see_argument(output.value, see);
  for (graph::EqualSizes &sizes : graph.equal_sizes) {
    see(sizes.a);
    see(sizes.b);
  }
  for (auto &entry : graph.subgraphs)
    see_graph(entry.second, see);
}

void note_data(Expr e, SymbolSet &symbols) {
  if (e.is_integer())
    return;
  for (const Expr symbol : symbolic::free_symbols(e))
    if (graph::is_data_symbol(symbol))
      symbols.insert(symbol);
}

/// Numbers of the data that the sizes of `value` mention.
void note_sizes(const Value &value, SymbolSet &symbols) {
  if (const TensorMeta *meta = value.tensor())
    for (const Expr size : meta->layout.sizes)
      note_data(size, symbols);
  if (const Value::List *list = value.list())
    for (const Value &item : *list)
      note_sizes(item, symbols);
}

/// Numbers that an argument is, or lists.
void note_numbers(const Graph &graph, const Argument &argument, SymbolSet &symbols) {
  if (const auto *e = std::get_if<Expr>(&argument.value)) {
    note_data(*e, symbols);
  } else if (const auto *list = std::get_if<Argument::List>(&argument.value)) {
    for (const Argument &item : *list)
      note_numbers(graph, item, symbols);
  } else if (const graph::NodeRef *reference = argument.node()) {
    const Node &node = graph.node(reference->id);
    if (const Expr *e = node.value ? std::get_if<Expr>(&node.value->value) : nullptr)
      note_data(*e, symbols);
  }
}

/// What is cut among ranks is cut by the host.
bool cuts_among_ranks(const Node &node) {
  return node.target == "_c10d_functional.all_to_all_single.default" ||
         node.target == "_c10d_functional_autograd.all_to_all_single.default";
}

SymbolSet symbols_of_all_sizes(const Graph &graph) {
  SymbolSet symbols;
  for (const Node &node : graph.nodes) {
    if (node.value)
      note_sizes(*node.value, symbols);
    if (cuts_among_ranks(node))
      for (const Argument &argument : node.args)
        note_numbers(graph, argument, symbols);
  }
  for (const auto &entry : graph.subgraphs) {
    const SymbolSet inner = symbols_of_all_sizes(entry.second);
    symbols.insert(inner.begin(), inner.end());
  }
  return symbols;
}

/// What a subgraph alone mentions it decides itself, when it is prepared.
SymbolSet symbols_of_sizes(Graph &graph) {
  SymbolSet own, result;
  auto subgraphs = std::exchange(graph.subgraphs, {});
  see_graph(graph, [&](Expr &e) { note_data(e, own); });
  graph.subgraphs = std::move(subgraphs);
  for (const Expr symbol : symbols_of_all_sizes(graph))
    if (own.count(symbol) != 0)
      result.insert(symbol);
  return result;
}

void rename_ranges(Graph &graph, const symbolic::Substitution &replacements) {
  for (graph::SymbolRange &range : graph.symbols)
    if (const auto found = replacements.find(range.symbol); found != replacements.end()) {
      if (range.name.empty())
        range.name = range.symbol.spelling();
      range.symbol = found->second;
      range.low = std::max<int64_t>(range.low, 0); // all arithmetic of sizes relies on it
    }
  for (auto &entry : graph.subgraphs)
    rename_ranges(entry.second, replacements);
}

} // namespace

size_t next_symbol_number(Graph &graph, symbolic::SymbolSort sort) {
  size_t next = 0;
  const auto see = [&](Expr e) {
    if (e.is_integer())
      return;
    for (const Expr symbol : symbolic::free_symbols(e))
      if (symbol.sort() == sort)
        next = std::max(next, symbol.number() + 1);
  };
  see_graph(graph, see);
  for (const graph::SymbolRange &range : graph.symbols)
    see(range.symbol);
  return next;
}

Graph with_symbols(Graph graph, const symbolic::Substitution &replacements) {
  see_graph(graph, [&](Expr &e) {
    if (!e.is_integer())
      e = symbolic::substitute(e, replacements);
  });
  rename_ranges(graph, replacements);
  return graph;
}

namespace {

/// The symbols become sizes, by the names that they had.
Graph with_sizes(Graph graph, const SymbolSet &symbols) {
  if (symbols.empty())
    return graph;
  size_t number = next_symbol_number(graph, symbolic::SymbolSort::size);
  symbolic::Substitution replacements;
  for (const Expr symbol : symbols)
    replacements.emplace(symbol, symbolic::symbol(symbolic::SymbolSort::size, number++));
  return with_symbols(std::move(graph), replacements);
}

/// Gives the call's results their own symbol where the data decides their size.
class Namer {
public:
  explicit Namer(Graph &graph)
      : graph_(graph), next_(next_symbol_number(graph, symbolic::SymbolSort::data)) {
    for (const Node &node : graph.nodes) // what item() reads is no one else's
      if (const Expr *number = node.value ? std::get_if<Expr>(&node.value->value) : nullptr;
          number && is_item(node))
        note_data(*number, taken_);
  }

  void run() {
    for (Node &node : graph_.nodes)
      if (node.kind == NodeKind::call_function && node.value)
        name(node);
  }

private:
  Graph &graph_;
  size_t next_;
  SymbolSet taken_;

  static bool is_item(const Node &node) {
    return node.target == "aten.item.default" || node.target == "aten._local_scalar_dense.default";
  }

  void name(Node &node) {
    const std::vector<DataSize> places = data_sizes_of(graph_, node);
    if (places.empty())
      return;
    const Expr recorded = *size_at(node, places.front());
    Expr symbol = recorded;
    if (!recorded.is_symbol() || !graph::is_data_symbol(recorded) ||
        !taken_.insert(recorded).second) {
      // The export knows that it is equal to another size.
      symbol = symbolic::symbol(symbolic::SymbolSort::data, next_++);
      taken_.insert(symbol);
      graph_.symbols.push_back({symbol, 0, INT64_MAX});
      graph_.equal_sizes.push_back(
          {symbol,
           recorded,
           {node.target + ": the size " + symbolic::print(symbol) + " that the data decides is " +
                symbolic::print(recorded, graph::symbol_writer(graph_.symbols)),
            node.name, source_line(node)}});
    }
    for (const DataSize &place : places)
      *size_at(node, place) = symbol;
    for (graph::SymbolRange &range : graph_.symbols)
      if (range.symbol == symbol)
        range.low = std::max<int64_t>(range.low, 0);
  }

  static Expr *size_at(Node &node, const DataSize &place) {
    Value *value = &*node.value;
    if (auto *list = std::get_if<Value::List>(&value->value))
      value = &list->at(place.result);
    auto *meta = std::get_if<TensorMeta>(&value->value);
    return meta ? &meta->layout.sizes.at(place.dim) : nullptr;
  }
};

} // namespace

graph::Graph merge_data_sizes(graph::Graph graph, const PassOptions &options) {
  std::map<graph::NodeId, Expr> first; // by the node of the number
  symbolic::Substitution same;
  std::set<graph::NodeId> merged;
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node &node = graph.nodes[id];
    if (node.target != kDefine || !node.args.at(0).node())
      continue;
    const Expr symbol = std::get<Expr>(node.args.at(1).value);
    const auto [found, is_new] = first.emplace(node.args[0].node()->id, symbol);
    if (is_new || graph::is_data_symbol(symbol) || graph::is_data_symbol(found->second))
      continue;
    same.emplace(symbol, found->second);
    merged.insert(id);
  }
  if (merged.empty())
    return graph;
  for (const auto &[symbol, kept] : same) {
    const symbolic::Interval range = graph.ranges().interval_of(symbol);
    for (graph::SymbolRange &row : graph.symbols)
      if (row.symbol == kept && range.low <= row.high && row.low <= range.high)
        row = {row.symbol, std::max(row.low, range.low), std::min(row.high, range.high), row.name};
  }
  see_graph(graph, [&](Expr &e) {
    if (!e.is_integer())
      e = symbolic::substitute(e, same);
  });
  for (Node &node : graph.nodes)
    std::for_each(node.args.begin(), node.args.end(), tidy);
  Rewrite rewrite(std::move(graph));
  for (graph::NodeId id = 0; id < rewrite.source().nodes.size(); ++id)
    if (merged.count(id) == 0)
      rewrite.copy(id);
  return clean_up(rewrite.take(), options); // what follows from them is often the same, too
}

graph::Graph name_data_sizes(graph::Graph graph, const PassOptions &) {
  Namer(graph).run();
  const SymbolSet symbols = symbols_of_sizes(graph);
  return with_sizes(std::move(graph), symbols);
}

graph::Graph settle_data_sizes(graph::Graph graph, const PassOptions &options) {
  const SymbolSet symbols = symbols_of_sizes(graph);
  if (symbols.empty())
    return graph;
  return infer_shapes(with_sizes(std::move(graph), symbols), options);
}

} // namespace tsc::ops
