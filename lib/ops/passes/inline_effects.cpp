#include "ops/passes/inline_effects.h"

#include "ops/table/rewrite.h"
#include "support/diagnostic.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

constexpr std::string_view kWithEffects = "higher_order.with_effects";

bool has_effects(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [](const Node &node) { return node.target == kWithEffects; }) ||
         std::any_of(graph.inputs.begin(), graph.inputs.end(), [](const graph::InputSpec &input) {
           return input.kind == graph::InputKind::token;
         });
}

/// What a token is to nodes that pass it on.
Argument token() { return std::string("token"); }
bool is_token(const Argument &argument) { return argument == token(); }

class Inliner {
public:
  explicit Inliner(Graph graph) : rewrite_(std::move(graph)) {
    for (const graph::InputSpec &input : rewrite_.source().inputs)
      if (input.kind == graph::InputKind::token)
        tokens_.push_back(input.node);
  }

  Graph run() {
    const Graph &source = rewrite_.source();
    for (NodeId id = 0; id < source.nodes.size(); ++id)
      if (std::find(tokens_.begin(), tokens_.end(), id) != tokens_.end())
        rewrite_.replace(id, token());
      else
        visit(id, rewrite_.take_mapped(id));
    Graph result = rewrite_.take_nodes();
    for (graph::InputSpec input : source.inputs) {
      if (input.kind == graph::InputKind::token)
        continue;
      input.node = rewrite_.mapped(NodeRef{input.node}).node()->id;
      result.inputs.push_back(std::move(input));
    }
    for (graph::OutputSpec output : source.outputs) {
      output.value = rewrite_.mapped(output.value);
      if (output.kind != graph::OutputKind::token)
        result.outputs.push_back(std::move(output));
    }
    return result;
  }

private:
  Rewrite rewrite_;
  std::vector<NodeId> tokens_;

  void visit(NodeId id, Node node) {
    if (node.target == kWithEffects) {
      rewrite_.replace(id, call(std::move(node)));
      return;
    }
    // (token, results..) of a call with effects
    const Arguments *results = node.target == "operator.getitem" ? node.args.at(0).list() : nullptr;
    if (results && !results->empty() && is_token(results->front())) {
      rewrite_.replace(id, item(node, *results));
      return;
    }
    if (node.kind == NodeKind::output)
      drop_tokens(node);
    rewrite_.replace(id, NodeRef{rewrite_.builder().append(std::move(node))});
  }

  /// with_effects(token, operator, arguments..) -> operator(arguments..), as (token, results).
  Argument call(Node node) {
    const std::string *target =
        node.args.size() > 1 ? std::get_if<std::string>(&node.args[1].value) : nullptr;
    if (!target)
      throw support::UserError(support::ExitCode::bad_input,
                               {"TSC-O017", node.target + ": argument 1 is no operator's name", "",
                                "", node.name, "", "export the graph again"});
    node.target = *target;
    node.args.erase(node.args.begin(), node.args.begin() + 2);
    size_t count = 0;
    if (const Value::List *values = node.value ? node.value->list() : nullptr) {
      count = values->empty() ? 0 : values->size() - 1;
      Value::List rest(values->begin() + (values->empty() ? 0 : 1), values->end());
      node.value = count == 0 ? Value{} : count == 1 ? rest[0] : Value{std::move(rest)};
    }
    const NodeRef result{rewrite_.builder().append(std::move(node))};
    return Arguments{token(), result, static_cast<int64_t>(count)};
  }

  Argument item(const Node &node, const Arguments &results) {
    const int64_t index = std::get<int64_t>(node.args.at(1).value);
    if (index == 0)
      return token();
    if (std::get<int64_t>(results.at(2).value) <= 1)
      return results.at(1);
    Node next = node;
    next.args = {results.at(1), index - 1};
    return NodeRef{rewrite_.builder().append(std::move(next))};
  }

  static void drop_tokens(Node &node) {
    if (const Arguments *list = node.args.at(0).list()) {
      Arguments rest = *list;
      rest.erase(std::remove_if(rest.begin(), rest.end(), is_token), rest.end());
      node.args[0] = std::move(rest);
    }
  }
};

} // namespace

graph::Graph inline_effects(graph::Graph graph, const PassOptions &) {
  return has_effects(graph) ? Inliner(std::move(graph)).run() : std::move(graph);
}

} // namespace tsc::ops
