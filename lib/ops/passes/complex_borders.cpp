#include "ops/passes/complex_borders.h"

#include "ops/families/control_flow.h"
#include "ops/table/complex_calls.h"
#include "ops/table/rewrite.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

constexpr std::string_view kParts = "aten.view_as_real.default",
                           kComplex = "aten.view_as_complex.default";

using Subgraphs = std::map<std::string, Graph>;

const TensorMeta *complex_meta(const Value &value) {
  const TensorMeta *meta = value.tensor();
  return meta != nullptr && tensor::is_complex(meta->dtype) ? meta : nullptr;
}
const TensorMeta *complex_meta(const Node &node) {
  return node.value ? complex_meta(*node.value) : nullptr;
}
bool has_complex(const Value &value) {
  if (const Value::List *list = value.list())
    return std::any_of(list->begin(), list->end(), has_complex);
  return complex_meta(value) != nullptr;
}
/// The value with the parts of complex tensors in their places.
Value real_value(Value value) {
  if (auto *list = std::get_if<Value::List>(&value.value))
    for (Value &item : *list)
      item = real_value(std::move(item));
  else if (const TensorMeta *meta = complex_meta(value))
    return Value{memory_of(*meta)};
  return value;
}

/// The parts of each complex tensor among `arguments`, nested lists included.
Argument parts_of(GraphBuilder &builder, const Argument &argument) {
  if (const Arguments *list = argument.list()) {
    Arguments parts;
    for (const Argument &item : *list)
      parts.push_back(parts_of(builder, item));
    return parts;
  }
  const NodeRef *node = argument.node();
  if (node == nullptr || complex_meta(builder.graph().node(node->id)) == nullptr)
    return argument;
  return builder.call(kParts, {argument});
}

/// `subgraph` with the parts of complex placeholders and results.
Graph real_subgraph(Graph subgraph, const std::vector<graph::SymbolRange> &symbols) {
  subgraph.symbols = symbols;
  subgraph.inputs.clear();
  subgraph.outputs.clear();
  subgraph = with_values(std::move(subgraph));
  Subgraphs inner = std::move(subgraph.subgraphs);
  Rewrite rewrite(std::move(subgraph));
  GraphBuilder &builder = rewrite.builder();
  std::vector<std::pair<NodeId, Argument>> given; // complex placeholders, and their parts
  bool is_behind = false;                         // placeholders stand first
  for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    const Node &old = rewrite.source().node(id);
    const TensorMeta *meta = complex_meta(old);
    if (old.kind == NodeKind::placeholder && meta != nullptr) {
      const TensorMeta memory = memory_of(*meta);
      Node node = rewrite.take_mapped(id);
      node.value = Value{memory};
      given.emplace_back(id, NodeRef{builder.append(std::move(node))});
      continue;
    }
    if (old.kind != NodeKind::placeholder && !is_behind) {
      for (const auto &[placeholder, parts] : given)
        rewrite.replace(placeholder, builder.call(kComplex, {parts}));
      is_behind = true;
    }
    if (old.kind != NodeKind::output) {
      rewrite.copy(id);
      continue;
    }
    Node node = rewrite.take_mapped(id);
    node.args.at(0) = parts_of(builder, node.args[0]);
    builder.append(std::move(node));
  }
  Graph result = rewrite.take();
  result.subgraphs = std::move(inner);
  return result;
}

class RealBorders {
public:
  explicit RealBorders(Graph graph)
      : subgraphs_(std::move(graph.subgraphs)), rewrite_(std::move(graph)) {}

  Graph run() {
    std::vector<bool> is_changed(rewrite_.source().nodes.size(), false);
    for (NodeId id = 0; id < rewrite_.source().nodes.size(); ++id) {
      const Node &old = rewrite_.source().node(id);
      if (is_control_flow(old) && takes_or_yields_complex(old)) {
        is_changed[id] = true;
        change_call(id);
        continue;
      }
      const NodeRef *from =
          old.target == "operator.getitem" && !old.args.empty() ? old.args[0].node() : nullptr;
      if (from != nullptr && is_changed[from->id] && complex_meta(old) != nullptr)
        append(id, rewrite_.take_mapped(id));
      else
        rewrite_.copy(id);
    }
    Graph result = rewrite_.take();
    result.subgraphs = std::move(subgraphs_);
    return result;
  }

private:
  Subgraphs subgraphs_;
  Rewrite rewrite_;

  bool takes_or_yields_complex(const Node &node) const {
    bool any = node.value && has_complex(*node.value);
    for (const Argument &argument : node.args)
      graph::for_each_node(argument, [&](NodeRef used) {
        any = any || complex_meta(rewrite_.source().node(used.id)) != nullptr;
      });
    return any;
  }

  /// The node yields parts; a complex tensor made of them stands for it.
  void append(NodeId id, Node node) {
    const bool is_complex = complex_meta(node) != nullptr;
    rewrite_.builder().set_source(node);
    node.value = real_value(std::move(*node.value));
    const Argument made = NodeRef{rewrite_.builder().append(std::move(node))};
    rewrite_.replace(id, is_complex ? rewrite_.builder().call(kComplex, {made}) : made);
  }

  void change_call(NodeId id) {
    Node node = rewrite_.take_mapped(id);
    rewrite_.builder().set_source(node);
    for (Argument &argument : node.args)
      if (const std::string *name = subgraph_name(argument))
        argument = graph::GraphRef{real_copy(*name)};
      else
        argument = parts_of(rewrite_.builder(), argument);
    append(id, std::move(node));
  }

  /// Of an argument that names a subgraph; null for others.
  const std::string *subgraph_name(const Argument &argument) const {
    if (const auto *direct = std::get_if<graph::GraphRef>(&argument.value))
      return subgraphs_.count(direct->name) != 0 ? &direct->name : nullptr;
    const NodeRef *node = argument.node();
    const Node *named = node ? &rewrite_.builder().graph().node(node->id) : nullptr;
    return named != nullptr && subgraphs_.count(named->target) != 0 ? &named->target : nullptr;
  }
  /// Several calls may name one subgraph: each has a changed copy.
  std::string real_copy(const std::string &name) {
    Graph copy = real_subgraph(subgraphs_.at(name), rewrite_.source().symbols);
    std::string unique = name + "_of_parts";
    for (size_t i = 1; subgraphs_.count(unique) != 0; ++i)
      unique = name + "_of_parts_" + std::to_string(i);
    subgraphs_.emplace(unique, std::move(copy));
    return unique;
  }
};

} // namespace

Graph with_real_borders(Graph graph) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), is_control_flow))
    return graph;
  return RealBorders(std::move(graph)).run();
}

} // namespace tsc::ops
