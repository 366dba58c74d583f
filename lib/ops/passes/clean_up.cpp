#include "ops/passes/clean_up.h"

#include "graph/data_symbols.h"
#include "ops/families/assertions.h"
#include "ops/families/dead_nodes.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"
#include "support/text.h"

#include <algorithm>
#include <cmath>

namespace tsc::ops {

using graph::NodeKind;
using graph::NodeRef;

namespace {

/// A text that is equal for equal arguments and for no others.
struct KeyPrinter {
  std::string text;

  void operator()(graph::None) { text += 'N'; }
  void operator()(bool value) { text += value ? "b1" : "b0"; }
  void operator()(int64_t value) { text += 'i' + std::to_string(value); }
  void operator()(double value) { text += 'd' + support::python_repr(value); }
  void operator()(const std::string &value) { text_of('s', value); }
  void operator()(Expr value) { text += 'e' + symbolic::print(value); }
  void operator()(NodeRef value) { text += '%' + std::to_string(value.id); }
  void operator()(DType value) { text += 't' + std::to_string(static_cast<int>(value)); }
  void operator()(const tensor::Device &value) { text += 'D' + tensor::to_string(value); }
  void operator()(graph::MemoryFormat value) {
    text += 'm' + std::to_string(static_cast<int>(value));
  }
  void operator()(const graph::TensorLayoutKind &value) { text_of('l', value.name); }
  void operator()(const graph::GraphRef &value) { text_of('g', value.name); }
  void operator()(const graph::Complex &value) {
    text += 'c' + support::python_repr(value.real) + ',' + support::python_repr(value.imaginary);
  }
  void operator()(const graph::CustomObject &value) { text_of('o', value.name); }
  void operator()(const Argument::Dictionary &dictionary) {
    text += '{';
    for (const auto &entry : dictionary.entries) {
      (*this)(entry.first);
      print(entry.second);
    }
    text += '}';
  }
  void operator()(const Arguments &list) {
    text += '[';
    for (const Argument &item : list)
      print(item);
    text += ']';
  }
  void print(const Argument &argument) {
    std::visit(*this, argument.value);
    text += ',';
  }
  /// With its length: no text runs into what follows.
  void text_of(char kind, const std::string &value) {
    text += kind + std::to_string(value.size()) + ':' + value;
  }
};

std::string key_of(const Node &node) {
  KeyPrinter printer;
  printer.text_of('f', node.target);
  for (const Argument &argument : node.args)
    printer.print(argument);
  for (const auto &keyword : node.kwargs) {
    printer.text_of('k', keyword.first);
    printer.print(keyword.second);
  }
  return std::move(printer.text);
}

bool is_number(const Argument &argument, int64_t expected) {
  if (const int64_t *value = std::get_if<int64_t>(&argument.value))
    return *value == expected;
  const double *value = std::get_if<double>(&argument.value);
  return value && *value == static_cast<double>(expected) && !std::signbit(*value);
}

/// The operand that `call` yields unchanged, bit for bit, apart from dtype and layout: x - 0, x *
/// 1, x / 1, and x + 0 for integers (-0.0 + 0 is 0, and so is -0.0 - -0.0).
std::optional<Argument> neutral_operand(const Call &call, const TensorMeta &result) {
  const std::string &target = call.node().target;
  bool integers = !tensor::is_floating(result.dtype);
  if (target == "aten.add.Tensor" && integers) {
    if (is_number(call["other"], 0))
      return call["self"];
    if (is_number(call["self"], 0))
      return call["other"];
  }
  if (target == "aten.sub.Tensor" && is_number(call["other"], 0))
    return call["self"];
  if (target == "aten.mul.Tensor") {
    if (is_number(call["other"], 1))
      return call["self"];
    if (is_number(call["self"], 1))
      return call["other"];
  }
  if (target == "aten.div.Tensor" && is_number(call["other"], 1))
    return call["self"];
  return std::nullopt;
}

/// Operators that only move or convert: the same dtype, sizes, strides and offset mean that nothing
/// happens.
bool is_movement(const Operator &row) {
  return row.effect == Effect::view || row.lowering == "clone" ||
         row.lowering == "convert_element_type";
}

class CleanUp {
public:
  CleanUp(Graph graph, bool products_read_windows)
      : rewrite_(std::move(graph)), products_read_windows_(products_read_windows) {
    for (const graph::OutputSpec &output : rewrite_.source().outputs)
      mutates_ = mutates_ || output.kind == graph::OutputKind::buffer_mutation ||
                 output.kind == graph::OutputKind::input_mutation ||
                 output.kind == graph::OutputKind::parameter_mutation;
    for (const graph::OutputSpec &output : rewrite_.source().outputs)
      if (const Node *node = behind_views(rewrite_.source(), output.value))
        results_.insert(node);
  }

  Graph run() {
    for (graph::NodeId id = 0; id < rewrite_.source().nodes.size(); ++id)
      if (rewrite_.source().node(id).kind == NodeKind::call_function)
        visit(id);
      else
        rewrite_.copy(id);
    return rewrite_.take();
  }

private:
  Rewrite rewrite_;
  bool mutates_ = false, products_read_windows_ = false;
  std::unordered_set<const Node *> results_; // of the source
  std::unordered_map<std::string, Argument> known_;

  void visit(graph::NodeId id) {
    const bool is_result = results_.count(&rewrite_.source().node(id)) != 0;
    Node node = rewrite_.take_mapped(id);
    const Operator &row = *find_operator(node.target);
    GraphBuilder &builder = rewrite_.builder();
    node.value = infer_value(builder.graph(), node, builder.shared_ranges());
    if (std::optional<Argument> same = unchanged(node, row, is_result)) {
      rewrite_.replace(id, *same);
      return;
    }
    shorten_view(node);
    if (row.effect == Effect::random || row.effect == Effect::mutates) {
      rewrite_.replace(id, NodeRef{builder.append(std::move(node))});
      return;
    }
    std::string key = key_of(node);
    if (products_read_windows_ && is_columns(node, row))
      key += std::to_string(id); // a further reader would have them written, and kept until then
    auto inserted = known_.emplace(std::move(key), Argument());
    if (inserted.second)
      inserted.first->second = NodeRef{builder.append(std::move(node))};
    rewrite_.replace(id, inserted.first->second);
  }

  /// The argument that the node is equal to. `is_result`: an output lies in its memory.
  std::optional<Argument> unchanged(const Node &node, const Operator &row, bool is_result) {
    const TensorMeta *result = node.value->tensor();
    if (!result)
      return std::nullopt;
    std::optional<Argument> operand;
    if (is_movement(row) && !node.args.empty() && node.args[0].node()) {
      if (row.lowering == "clone" && (mutates_ || is_result) && is_input(node.args[0]))
        return std::nullopt; // the copy keeps the old value, or is what was asked for
      operand = node.args[0];
    } else {
      operand = neutral_operand(rewrite_.call(node, row), *result);
    }
    if (!operand || !operand->node())
      return std::nullopt;
    const Graph &graph = rewrite_.builder().graph();
    const Value &value = *graph.node(operand->node()->id).value;
    const TensorMeta *meta = value.tensor();
    tensor::Layout layout = result->layout;
    if (meta && row.effect != Effect::view)
      layout.offset = meta->layout.offset; // a copy starts at 0, its source may not
    bool same = meta && meta->dtype == result->dtype && same_layout(meta->layout, layout);
    return same ? operand : std::nullopt;
  }

  static bool same_layout(const tensor::Layout &a, const tensor::Layout &b) {
    if (a.sizes != b.sizes || a.offset != b.offset)
      return false;
    for (size_t i = 0; i < a.rank(); ++i)
      if (a.strides[i] != b.strides[i] && !a.sizes[i].is_integer(1))
        return false;
    return true;
  }

  /// What the argument is, seen through views; null if it is no node.
  static const Node *behind_views(const Graph &graph, Argument argument) {
    while (argument.node()) {
      const Node &node = graph.node(argument.node()->id);
      if (node.kind != NodeKind::call_function ||
          find_operator(node.target)->effect != Effect::view)
        return &node;
      argument = node.args[0];
    }
    return nullptr;
  }
  /// Whether the argument is an input of the graph, seen through views.
  bool is_input(const Argument &argument) const {
    const Node *node = behind_views(rewrite_.builder().graph(), argument);
    return node && node->kind != NodeKind::call_function;
  }
  /// A convolution's windows laid out as a matrix, kernel times as large as the input: the one
  /// product that reads them may do so where they come from, and nothing is written.
  bool is_columns(const Node &node, const Operator &row) const {
    if (row.lowering != "clone" || node.args.empty())
      return false;
    const Node *source = behind_views(rewrite_.builder().graph(), node.args[0]);
    return source && source->target == "tsc.windows.default";
  }

  /// view(view(x)) is view(x) where x can be viewed so.
  void shorten_view(Node &node) {
    const Graph &graph = rewrite_.builder().graph();
    while (node.target == "aten.view.default" && node.args[0].node()) {
      const Node &inner = graph.node(node.args[0].node()->id);
      if (inner.target != "aten.view.default" || !inner.args[0].node())
        return;
      const TensorMeta &base = *graph.node(inner.args[0].node()->id).value->tensor();
      const std::vector<Expr> &sizes = node.value->tensor()->layout.sizes;
      if (!view_strides(base.layout, sizes, rewrite_.builder().ranges()))
        return;
      node.args = {inner.args[0], sizes_argument(sizes)};
    }
  }
};

} // namespace

graph::Graph clean_up(graph::Graph graph, const PassOptions &options) {
  if (!options.cleanup || graph.stage == "post_grad" || has_ordered_operators(graph))
    return graph;
  for (auto &entry : graph.subgraphs)
    entry.second = clean_up(std::move(entry.second), options);
  return remove_dead_nodes(CleanUp(std::move(graph), options.product_kernels).run());
}

} // namespace tsc::ops
