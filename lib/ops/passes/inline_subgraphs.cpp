#include "ops/passes/inline_subgraphs.h"

#include "ops/table/rewrite.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <set>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

constexpr std::string_view kAutocast = "higher_order.wrap_with_autocast";
/// Their arguments: the mode, the subgraph, the subgraph's inputs.
constexpr std::string_view kWrappers[] = {"higher_order.wrap_with_set_grad_enabled",
                                          kAutocast,
                                          "higher_order.wrap",
                                          "higher_order.wrap_activation_checkpoint",
                                          "higher_order.tag_activation_checkpoint",
                                          "higher_order.invoke_subgraph",
                                          "higher_order.hints_wrapper",
                                          "higher_order.strict_mode"};

bool is_wrapper(const Node &node) {
  return node.kind == NodeKind::call_function &&
         std::find(std::begin(kWrappers), std::end(kWrappers), node.target) != std::end(kWrappers);
}

using Subgraphs = std::map<std::string, Graph>;

/// A graph's nodes, and the graphs that they name (a Rewrite moves those out of its source).
struct Scope {
  const Graph &graph;
  const Subgraphs &subgraphs;
};

/// The name of the subgraph that `argument` gives, directly or through a get_attr node.
const std::string *subgraph_name(const Scope &scope, const Argument &argument) {
  const std::string *name = nullptr;
  if (const graph::GraphRef *reference = std::get_if<graph::GraphRef>(&argument.value))
    name = &reference->name;
  else if (const NodeRef *node = argument.node();
           node && scope.graph.node(node->id).kind == NodeKind::get_attr)
    name = &scope.graph.node(node->id).target;
  return name && scope.subgraphs.count(*name) != 0 ? name : nullptr;
}

/// Position of the subgraph among a wrapper's arguments; nothing if there is none, or `node` is no
/// wrapper.
std::optional<size_t> subgraph_position(const Scope &scope, const Node &node) {
  for (size_t i = 0; is_wrapper(node) && i < node.args.size(); ++i)
    if (subgraph_name(scope, node.args[i]))
      return i;
  return std::nullopt;
}

/// What follows the subgraph: its inputs, one by one or in a list. invoke_subgraph has a name
/// before them, hints_wrapper dictionaries after them.
Arguments inputs_of(const Node &node, size_t position) {
  Arguments inputs;
  bool named = node.target == "higher_order.invoke_subgraph";
  for (size_t i = position + 1 + (named ? 1 : 0); i < node.args.size(); ++i)
    if (const Arguments *list = node.args[i].list())
      inputs.insert(inputs.end(), list->begin(), list->end());
    else if (!node.args[i].dictionary())
      inputs.push_back(node.args[i]);
  return inputs;
}

[[noreturn]] void fail(const Node &node, const char *code, std::string message,
                       std::string next_step) {
  throw support::UserError(support::ExitCode::bad_input,
                           support::Diagnostic{code, std::move(message), "", "", node.name,
                                               source_line(node), std::move(next_step)});
}

/// What goes with the wrappers of a graph: get_attr nodes that only they use.
std::vector<bool> vanishing_nodes(const Scope &scope) {
  const Graph &graph = scope.graph;
  std::vector<bool> vanishing(graph.nodes.size(), false);
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node &node = graph.node(id);
    vanishing[id] = node.kind == NodeKind::get_attr && scope.subgraphs.count(node.target) != 0;
    std::optional<size_t> position = subgraph_position(scope, node);
    auto keep = [&](NodeRef reference) { vanishing[reference.id] = false; };
    for (size_t i = 0; i < node.args.size(); ++i)
      if (i != position)
        graph::for_each_node(node.args[i], keep);
    for (const auto &keyword : node.kwargs)
      graph::for_each_node(keyword.second, keep);
  }
  return vanishing;
}

/// Names of the subgraphs that staying nodes call.
std::set<std::string> called_subgraphs(const Scope &scope, const std::vector<bool> &vanishing) {
  std::set<std::string> names;
  for (NodeId id = 0; id < scope.graph.nodes.size(); ++id) {
    const Node &node = scope.graph.node(id);
    if (node.kind == NodeKind::get_attr && !vanishing[id])
      names.insert(node.target);
    if (subgraph_position(scope, node))
      continue;
    for (const Argument &argument : node.args)
      if (const auto *reference = std::get_if<graph::GraphRef>(&argument.value))
        names.insert(reference->name);
  }
  return names;
}

const TensorMeta *first_float(const Value &value) {
  if (const TensorMeta *meta = value.tensor())
    return tensor::is_floating(meta->dtype) ? meta : nullptr;
  if (const Value::List *list = value.list())
    for (const Value &item : *list)
      if (const TensorMeta *meta = first_float(item))
        return meta;
  return nullptr;
}

class Inliner {
public:
  explicit Inliner(Graph graph)
      : source_subgraphs_(std::move(graph.subgraphs)), rewrite_(std::move(graph)) {}

  Graph run() {
    const Graph &source = rewrite_.source();
    const Scope scope{source, source_subgraphs_};
    std::vector<bool> vanishing = vanishing_nodes(scope);
    for (const std::string &name : called_subgraphs(scope, vanishing))
      if (auto found = source_subgraphs_.find(name); found != source_subgraphs_.end())
        subgraphs_.insert(*found);
    for (NodeId id = 0; id < source.nodes.size(); ++id) {
      const Node &old = source.node(id);
      if (vanishing[id])
        continue;
      std::optional<size_t> position = subgraph_position(scope, old);
      std::string called = position ? *subgraph_name(scope, old.args[*position]) : "";
      Node node = rewrite_.take_mapped(id);
      if (position)
        rewrite_.replace(id, splice(source_subgraphs_.at(called), node, inputs_of(node, *position),
                                    node.target == kAutocast));
      else if (const Arguments *list = unpacked(node))
        rewrite_.replace(id, element(node, *list));
      else
        rewrite_.replace(id, NodeRef{rewrite_.builder().append(std::move(node))});
    }
    Graph result = rewrite_.take();
    result.subgraphs = std::move(subgraphs_);
    return result;
  }

private:
  GraphBuilder &builder() { return rewrite_.builder(); }

  static const Arguments *unpacked(const Node &node) {
    return node.target == "operator.getitem" && node.args.size() == 2 ? node.args[0].list()
                                                                      : nullptr;
  }

  static Argument element(const Node &node, const Arguments &list) {
    const int64_t *index = std::get_if<int64_t>(&node.args[1].value);
    if (!index || *index < 0 || *index >= static_cast<int64_t>(list.size()))
      fail(node, "TSC-O046",
           "operator.getitem: index " + (index ? std::to_string(*index) : "that is no integer") +
               " of " + std::to_string(list.size()) + " results",
           "choose one of the results");
    return list[static_cast<size_t>(*index)];
  }

  /// Copies the subgraph's nodes; the result is what it returns.
  Argument splice(const Graph &subgraph, const Node &call, Arguments inputs, bool autocast) {
    std::vector<Argument> replacements(subgraph.nodes.size());
    size_t placeholders = 0;
    for (const Node &node : subgraph.nodes)
      placeholders += node.kind == NodeKind::placeholder;
    if (placeholders != inputs.size())
      fail(call, "TSC-O010",
           call.target + " takes " + std::to_string(placeholders) +
               " arguments for its subgraph, " + std::to_string(inputs.size()) + " given",
           "export the graph again with a PyTorch between 2.8 and 2.11");
    const Scope scope{subgraph, subgraph.subgraphs};
    std::vector<bool> vanishing = vanishing_nodes(scope);
    std::map<std::string, std::string> moved; // inner subgraphs' names here
    auto mapped = [&](const Argument &argument) {
      return map_references(argument,
                            [&](NodeRef reference) { return replacements[reference.id]; });
    };
    for (NodeId id = 0; id < subgraph.nodes.size(); ++id) {
      const Node &old = subgraph.node(id);
      if (old.kind == NodeKind::placeholder)
        replacements[id] = inputs[id]; // placeholders stand first
      if (old.kind == NodeKind::placeholder || vanishing[id])
        continue;
      Node node = old;
      for (Argument &argument : node.args)
        argument = mapped(argument);
      for (auto &keyword : node.kwargs)
        keyword.second = mapped(keyword.second);
      if (node.kind == NodeKind::output)
        return node.args.at(0);
      if (node.stack_trace.empty())
        node.stack_trace = call.stack_trace;
      if (std::optional<size_t> position = subgraph_position(scope, old)) {
        const Graph &inner = subgraph.subgraphs.at(*subgraph_name(scope, old.args[*position]));
        replacements[id] =
            splice(inner, node, inputs_of(node, *position), autocast || old.target == kAutocast);
        continue;
      }
      if (const Arguments *list = unpacked(node)) {
        replacements[id] = element(node, *list);
        continue;
      }
      move_subgraphs(subgraph, node, moved);
      node.name = builder().fresh_name("." + node.name);
      if (node.origins.empty() || node.origins == std::vector<std::string>{old.name})
        node.origins = {node.name};
      if (autocast)
        cast_operands(node);
      replacements[id] = NodeRef{builder().append(std::move(node))};
    }
    throw support::InternalError("inline_subgraphs", call.name, "the subgraph has no output");
  }

  /// `node` of `subgraph` comes to stand in the outer graph: the graphs that it names follow.
  void move_subgraphs(const Graph &subgraph, Node &node,
                      std::map<std::string, std::string> &moved) {
    auto follow = [&](std::string &name) {
      auto found = subgraph.subgraphs.find(name);
      if (found == subgraph.subgraphs.end())
        return;
      auto [entry, added] = moved.try_emplace(name, name);
      for (size_t i = 1; added && subgraphs_.count(entry->second) != 0; ++i)
        entry->second = name + "_" + std::to_string(i);
      if (added)
        subgraphs_.emplace(entry->second, found->second);
      name = entry->second;
    };
    if (node.kind == NodeKind::get_attr)
      follow(node.target);
    for (Argument &argument : node.args)
      if (graph::GraphRef *reference = std::get_if<graph::GraphRef>(&argument.value))
        follow(reference->name);
  }

  /// An export in its default form records no casts of autocast: it records what each operator
  /// yielded under it. Where the operands as they stand give another dtype, autocast has cast the
  /// floating ones to the dtype that the result has (its rule for every operator that it touches;
  /// float64 it leaves alone).
  void cast_operands(Node &node) {
    const TensorMeta *recorded = node.value ? first_float(*node.value) : nullptr;
    if (node.kind != NodeKind::call_function || !recorded || !find_operator(node.target) ||
        yields(node, recorded->dtype))
      return;
    DType dtype = recorded->dtype;
    builder().set_source(node);
    auto cast = [&](const Argument &argument) {
      return map_references(argument, [&](NodeRef reference) -> Argument {
        const std::optional<Value> &value = builder().graph().node(reference.id).value;
        const TensorMeta *meta = value ? value->tensor() : nullptr;
        if (!meta || !tensor::is_floating(meta->dtype) || meta->dtype == dtype ||
            meta->dtype == DType::f64)
          return reference;
        return builder().emit("prims.convert_element_type.default", {reference, dtype});
      });
    };
    for (Argument &argument : node.args)
      argument = cast(argument);
    for (auto &keyword : node.kwargs)
      keyword.second = cast(keyword.second);
  }

  bool yields(const Node &node, DType dtype) const {
    try {
      Value value =
          infer_value(rewrite_.builder().graph(), node, rewrite_.builder().shared_ranges());
      const TensorMeta *meta = first_float(value);
      return meta && meta->dtype == dtype;
    } catch (const support::UserError &) { // operands of different dtypes, as autocast allows
      return false;
    }
  }

  Subgraphs source_subgraphs_;
  Rewrite rewrite_;
  Subgraphs subgraphs_; // of the result
};

/// Graphs that are called and stay: their own wrappers vanish, too.
void inline_inside(Subgraphs &subgraphs) {
  for (auto &entry : subgraphs)
    entry.second = inline_subgraphs(std::move(entry.second), {});
}

} // namespace

graph::Graph inline_subgraphs(graph::Graph graph, const PassOptions &) {
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_wrapper))
    graph = Inliner(std::move(graph)).run();
  inline_inside(graph.subgraphs);
  return graph;
}

} // namespace tsc::ops
