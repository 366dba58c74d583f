#include "graph/data_symbols.h"
#include "ops/families/assertions.h"
#include "ops/passes/passes.h"
#include "ops/passes/recorded_strides.h"
#include "ops/table/builder.h"
#include "ops/table/shape_rules.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tsc::ops {

using graph::NodeKind;
using support::Diagnostic;

namespace {

std::string describe(const TensorMeta &meta) {
  return std::string(tensor::torch_name(meta.dtype)) + " " + print_sizes(meta.layout.sizes);
}

/// Sizes may differ where symbols are involved: the export may know more of them than the ranges
/// say.
bool agree(const Value &recorded, const Value &inferred) {
  const TensorMeta *a = recorded.tensor(), *b = inferred.tensor();
  if (a && b) {
    if (a->dtype != b->dtype || a->layout.rank() != b->layout.rank())
      return false;
    for (size_t i = 0; i < a->layout.rank(); ++i) {
      Expr x = a->layout.sizes[i], y = b->layout.sizes[i];
      if (x.is_integer() && y.is_integer() && x != y)
        return false;
    }
    return true;
  }
  const Value::List *list = recorded.list(), *other = inferred.list();
  if (list && other) {
    if (list->size() != other->size())
      return false;
    for (size_t i = 0; i < list->size(); ++i)
      if (!agree((*list)[i], (*other)[i]))
        return false;
    return true;
  }
  return (a != nullptr) == (b != nullptr) && (list != nullptr) == (other != nullptr);
}

std::string describe(const Value &value) {
  if (const TensorMeta *meta = value.tensor())
    return describe(*meta);
  if (const Value::List *list = value.list()) {
    std::string text;
    for (const Value &item : *list)
      text += (text.empty() ? "(" : ", ") + describe(item);
    return text + ")";
  }
  return "a scalar";
}

/// Results that PyTorch records otherwise than it computes them: states of fused kernels that only
/// a backward pass reads, and the last states of an LSTM, with a dimension too many.
bool is_recorded_loosely(const Node &node) {
  for (std::string_view part : {"_scaled_dot_product_", "batch_norm", "embedding_bag", "aten.lstm.",
                                // a dimension of size 1 that it reduces is kept in what is recorded
                                "linalg_vector_norm", "linalg_norm", "frobenius_norm",
                                // its second result is empty on a GPU only
                                "log_sigmoid_forward",
                                // a bool that the export does not keep
                                "aten.equal.",
                                // int64 whatever its weights are; of floats no int64
                                "aten.bincount.", "unique"})
    if (node.target.find(part) != std::string::npos)
      return true;
  return false;
}

bool any_argument(const Node &node, const std::function<bool(graph::NodeRef)> &holds) {
  bool any = false;
  auto visit = [&](graph::NodeRef reference) { any = any || holds(reference); };
  for (const Argument &argument : node.args)
    graph::for_each_node(argument, visit);
  for (const auto &keyword : node.kwargs)
    graph::for_each_node(keyword.second, visit);
  return any;
}

/// True if an argument is a node whose value nobody knows.
bool depends_on_unknown(const Graph &graph, const Node &node) {
  return any_argument(node,
                      [&](graph::NodeRef reference) { return !graph.node(reference.id).value; });
}

/// Names integers that item() reads where the file does not: first the symbols that the graph
/// declares and no node yields, then new ones.
class NumberNames {
public:
  explicit NumberNames(const Graph &graph) {
    std::set<Expr, symbolic::ExprLess> yielded;
    for (const Node &node : graph.nodes)
      if (const Expr *number = node.value ? std::get_if<Expr>(&node.value->value) : nullptr;
          number && number->is_symbol())
        yielded.insert(*number);
    for (const Node &node : graph.nodes)
      if (node.target == kDefine) // a number of the graph around this one
        yielded.insert(std::get<Expr>(node.args.at(1).value));
    for (const graph::SymbolRange &range : graph.symbols) {
      used_.insert(range.symbol);
      if (graph::is_data_symbol(range.symbol) && yielded.count(range.symbol) == 0)
        declared_.push_back(range.symbol);
    }
    used_.insert(yielded.begin(), yielded.end());
  }

  void name(Graph &graph, Node &node) {
    if (node.value || !is_item(node) || node.args.empty() || !node.args[0].node())
      return;
    const std::optional<Value> &self = graph.node(node.args[0].node()->id).value;
    if (!self || !self->tensor() || !tensor::is_integral(self->tensor()->dtype, false))
      return;
    if (next_ < declared_.size()) {
      node.value = Value{declared_[next_++]};
      return;
    }
    while (used_.count(symbolic::symbol(symbolic::SymbolSort::data, number_)) != 0)
      ++number_;
    const Expr symbol = symbolic::symbol(symbolic::SymbolSort::data, number_++);
    graph.symbols.push_back({symbol, INT64_MIN, INT64_MAX});
    node.value = Value{symbol};
  }

private:
  std::set<Expr, symbolic::ExprLess> used_;
  std::vector<Expr> declared_;
  size_t next_ = 0, number_ = 0;

  static bool is_item(const Node &node) {
    return node.target == "aten.item.default" || node.target == "aten._local_scalar_dense.default";
  }
};

/// Keeps what `node` takes to be one in the graph. What data decides is held to the memory that it
/// indexes.
void keep(Graph &graph, const Node &node, const SizePairs &pairs) {
  for (const auto &[a, b] : pairs) {
    const auto is_same = [&, one = a, other = b](const graph::EqualSizes &each) {
      return each.a == one && each.b == other;
    };
    if (graph::depends_on_data(a) || graph::depends_on_data(b) ||
        std::any_of(graph.equal_sizes.begin(), graph.equal_sizes.end(), is_same))
      continue;
    graph.equal_sizes.push_back({a,
                                 b,
                                 {node.target + ": sizes " + symbolic::print(a) + " and " +
                                      symbolic::print(b) + " are equal",
                                  users_name(node), source_line(node)}});
  }
}

} // namespace

graph::Graph infer_shapes(graph::Graph graph, const PassOptions &) {
  auto ranges = std::make_shared<const symbolic::Ranges>(graph.ranges());
  NumberNames names(graph);
  RecordedStrides strides(graph);
  std::vector<Diagnostic> problems;
  support::ExitCode code = support::ExitCode::unsupported; // unless something is wrong
  std::vector<bool> differs(graph.nodes.size(), false);    // from what is recorded, and rightly
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    Node &node = graph.nodes[i];
    // What is wrong keeps the value that the file recorded, so that its users are checked too.
    if (node.kind != NodeKind::call_function || depends_on_unknown(graph, node))
      continue;
    const size_t symbols = graph.symbols.size();
    names.name(graph, node);
    if (graph.symbols.size() != symbols)
      ranges = std::make_shared<const symbolic::Ranges>(graph.ranges());
    try {
      SizePairs equal_sizes;
      Value inferred = infer_value(graph, node, ranges, &equal_sizes);
      keep(graph, node, equal_sizes);
      bool agrees = !node.value || agree(*node.value, inferred);
      differs[i] =
          !agrees && (is_recorded_loosely(node) || any_argument(node, [&](graph::NodeRef argument) {
                        return differs[argument.id];
                      }));
      if (agrees || differs[i]) {
        const std::optional<Value> recorded = std::exchange(node.value, std::move(inferred));
        if (agrees && recorded && recorded->tensor())
          strides.note(node, *recorded->tensor());
        strides.check_use(node);
        continue;
      }
      problems.push_back(Diagnostic{"TSC-O050",
                                    node.target + " yields " + describe(inferred) +
                                        ", the file says " + describe(*node.value),
                                    "", "", node.name, source_line(node),
                                    "correct the node's val, or leave it out"});
      code = support::ExitCode::bad_input;
    } catch (const support::UserError &error) {
      for (Diagnostic diagnostic : error.diagnostics()) {
        if (diagnostic.node.empty()) // of an expression, say
          diagnostic.node = node.name;
        if (diagnostic.source_line.empty())
          diagnostic.source_line = source_line(node);
        problems.push_back(std::move(diagnostic));
      }
      if (error.exit_code() != support::ExitCode::unsupported)
        code = error.exit_code();
    }
  }
  if (!problems.empty())
    throw support::UserError(code, std::move(problems));
  return graph;
}

graph::Graph with_values(graph::Graph subgraph) {
  return infer_shapes(check_operators(std::move(subgraph), {}), {});
}

} // namespace tsc::ops
