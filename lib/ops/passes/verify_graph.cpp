#include "ops/passes/verify_graph.h"

#include "ops/table/builder.h"
#include "ops/table/operator.h"
#include "support/diagnostic.h"

#include <unordered_set>

namespace tsc::ops {
namespace {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

class GraphVerifier {
public:
  GraphVerifier(const Graph &graph, std::string_view pass, bool with_values)
      : graph_(graph), pass_(pass), with_values_(with_values),
        ranges_(std::make_shared<const symbolic::Ranges>(graph.ranges())) {}

  void run() {
    std::unordered_set<std::string_view> names;
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node &node = graph_.nodes[id];
      require(names.insert(node.name).second, node, "another node has this name");
      require((node.kind == NodeKind::output) == (id + 1 == graph_.nodes.size()), node,
              "the output node is not the last one");
      check_arguments(id);
      if (with_values_ && node.kind == NodeKind::call_function)
        check_value(node);
    }
    check_signature();
    for (const auto &[name, subgraph] : graph_.subgraphs)
      GraphVerifier(subgraph, pass_, false).run();
  }

private:
  const Graph &graph_;
  std::string_view pass_;
  bool with_values_;
  std::shared_ptr<const symbolic::Ranges> ranges_;

  void require(bool condition, const Node &node, const std::string &message) const {
    if (!condition)
      throw support::InternalError("verifier after " + std::string(pass_), node.name,
                                   node.target + ": " + message);
  }

  void check_arguments(NodeId id) const {
    const Node &node = graph_.nodes[id];
    const auto check = [&](NodeRef reference) {
      require(reference.id < id, node, "it refers to a node that does not stand before it");
      require(graph_.nodes[reference.id].kind != NodeKind::output, node,
              "it refers to the output node");
    };
    for (const Argument &argument : node.args)
      graph::for_each_node(argument, check);
    for (const auto &[name, argument] : node.kwargs)
      graph::for_each_node(argument, check);
  }

  void check_signature() const {
    for (const graph::InputSpec &input : graph_.inputs)
      if (input.node >= graph_.nodes.size() ||
          graph_.nodes[input.node].kind != NodeKind::placeholder)
        throw support::InternalError("verifier after " + std::string(pass_), input.target,
                                     "an input of the signature is no placeholder");
    for (const graph::OutputSpec &output : graph_.outputs)
      graph::for_each_node(output.value, [&](NodeRef reference) {
        if (reference.id >= graph_.nodes.size())
          throw support::InternalError("verifier after " + std::string(pass_), output.target,
                                       "an output of the signature is no node");
      });
  }

  static bool may_differ(Expr a, Expr b) { return a.is_integer() && b.is_integer() && a != b; }
  /// Where both are numbers: what an export knows of symbols, rules need not.
  bool agree(const Value &said, const Value &inferred) const {
    const TensorMeta *a = said.tensor(), *b = inferred.tensor();
    if (a != nullptr && b != nullptr) {
      bool same = a->dtype == b->dtype && a->layout.rank() == b->layout.rank();
      for (size_t i = 0; same && i < a->layout.rank(); ++i)
        same = !may_differ(a->layout.sizes[i], b->layout.sizes[i]);
      return same;
    }
    const Value::List *list = said.list(), *other = inferred.list();
    if (list != nullptr && other != nullptr) {
      bool same = list->size() == other->size();
      for (size_t i = 0; same && i < list->size(); ++i)
        same = agree((*list)[i], (*other)[i]);
      return same;
    }
    return (a == nullptr) == (b == nullptr) && (list == nullptr) == (other == nullptr);
  }

  void check_layout(const Node &node, const Value &value) const {
    if (const Value::List *list = value.list())
      for (const Value &item : *list)
        check_layout(node, item);
    const TensorMeta *meta = value.tensor();
    if (meta == nullptr)
      return;
    require(meta->layout.sizes.size() == meta->layout.strides.size(), node,
            std::to_string(meta->layout.sizes.size()) + " sizes, " +
                std::to_string(meta->layout.strides.size()) + " strides");
    for (const Expr size : meta->layout.sizes)
      require(!size.is_integer() || size.value() >= 0, node,
              "the size " + symbolic::print(size) + " is negative");
    // What the call itself gives is held to its memory, with a code, by functionalize.
    const bool given = node.target.rfind("aten.as_strided", 0) == 0;
    require(given || !meta->layout.offset.is_integer() || meta->layout.offset.value() >= 0, node,
            "the offset " + symbolic::print(meta->layout.offset) + " is negative");
  }

  /// What a call of subgraphs yields is known when they are prepared, and what computes with it
  /// then.
  bool waits_for_subgraphs(const Node &node) const {
    bool waits = node.target.rfind("higher_order.", 0) == 0;
    for (const graph::Argument &argument : node.args)
      graph::for_each_node(
          argument, [&](graph::NodeRef used) { waits = waits || !graph_.node(used.id).value; });
    return waits;
  }

  void check_value(const Node &node) const {
    const Operator *row = find_operator(node.target);
    if (row == nullptr || row->effect == Effect::ordered) // a compiler's own graphs
      return;
    if (!node.value && waits_for_subgraphs(node))
      return;
    require(node.value.has_value(), node, "it has no value");
    check_layout(node, *node.value);
    if (!row->shape && !row->decompose)
      return;
    try {
      require(agree(*node.value, infer_value(graph_, node, ranges_)), node,
              "its value is not what the rule gives");
    } catch (const support::UserError &error) {
      require(false, node, error.diagnostics().front().message);
    }
  }
};

} // namespace

void verify_graph(const graph::Graph &graph, std::string_view pass, bool with_values) {
  GraphVerifier(graph, pass, with_values).run();
}

} // namespace tsc::ops
