#include "graph/data_symbols.h"
#include "ops/families/assertions.h"
#include "ops/families/control_flow.h"
#include "ops/passes/passes.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"
#include "ops/table/source_line.h"

#include <algorithm>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

namespace {

std::string name_of(const Node &node) {
  return node.origins.empty() ? node.name : node.origins.front();
}

graph::Assertion assertion_of(const Node &node) {
  return {std::get<std::string>(node.args.at(1).value), name_of(node), source_line(node)};
}

/// Checked when sizes are bound, not while steps run.
bool is_about_sizes(const Node &node) {
  const Expr *condition = std::get_if<Expr>(&node.args.at(0).value);
  return condition && !graph::depends_on_data(*condition);
}

[[noreturn]] void fail(const Node &node) {
  throw support::UserError(
      support::ExitCode::bad_input,
      {"TSC-O123",
       "the graph asserts what never holds: " + std::get<std::string>(node.args.at(1).value), "",
       "", name_of(node), source_line(node), "export again with inputs of which it holds"});
}

/// Whether it is checked when a size gets its value, or, of the whole graph, when shapes are bound.
/// What a branch asserts about other sizes must hold only if the branch is taken.
bool stays(const Graph &graph, const Node &node, bool is_whole) {
  return is_about_sizes(node) &&
         (is_whole || mentions_own_size(graph, std::get<Expr>(node.args.at(0).value)));
}

/// Whether a branch of `graph` or itself asserts something that is not checked elsewhere.
bool asserts(const Graph &graph, bool is_whole) {
  const auto here = [&](const Node &node) {
    return node.target == kAssert && !stays(graph, node, is_whole);
  };
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), here) ||
         std::any_of(graph.subgraphs.begin(), graph.subgraphs.end(),
                     [](const auto &entry) { return asserts(entry.second, false); });
}

class Recorder {
public:
  Graph run(Graph graph) {
    Graph result = thread(std::move(graph), SIZE_MAX, true);
    result.assertions = std::move(assertions_);
    return result;
  }

private:
  std::vector<graph::Assertion> assertions_;

  static Value number_value(tensor::Device device) {
    return contiguous_value(DType::i64, {}, device);
  }
  static tensor::Device device_of(const Graph &graph) {
    for (const Node &node : graph.nodes)
      if (node.value && node.value->tensor())
        return node.value->tensor()->device;
    return {};
  }

  /// `graph` with an input for the number, its placeholder number `position` (or the last), and an
  /// output for the new one.
  Graph thread(Graph graph, size_t position, bool is_whole) {
    std::map<std::string, Graph> subgraphs = std::move(graph.subgraphs);
    const tensor::Device device = device_of(graph);
    const size_t inputs = static_cast<size_t>(
        std::count_if(graph.nodes.begin(), graph.nodes.end(),
                      [](const Node &node) { return node.kind == NodeKind::placeholder; }));
    position = std::min(position, inputs);
    Rewrite rewrite(std::move(graph));
    NodeId input = 0;
    Argument number;
    std::vector<Node> last; // assertions that wait for the others
    for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
      if (id == position) {
        input = add_input(rewrite.builder(), device);
        number = NodeRef{input};
      }
      Node node = rewrite.take_mapped(id);
      if (node.target == kAssert && stays(rewrite.source(), node, is_whole)) {
        rewrite.replace(id, NodeRef{rewrite.builder().append(std::move(node))});
      } else if (node.target == kAssert) {
        if (node.args.size() > 2)
          last.push_back(std::move(node));
        else
          number = noted(rewrite.builder(), node, number, is_whole);
      } else if (is_control_flow(node) && any_asserts(subgraphs, node)) {
        number = through(rewrite, id, std::move(node), subgraphs, number, device);
      } else if (node.kind == NodeKind::output) {
        for (const Node &assertion : last)
          number = noted(rewrite.builder(), assertion, number, is_whole);
        add_output(node, number, is_whole);
        rewrite.builder().append(std::move(node));
      } else {
        rewrite.replace(id, NodeRef{rewrite.builder().append(std::move(node))});
      }
    }
    return finish(rewrite.take(), std::move(subgraphs), input, position, number, is_whole);
  }

  static NodeId add_input(GraphBuilder &builder, tensor::Device device) {
    Node node;
    node.name = builder.fresh_name("tsc.failure.default");
    node.kind = NodeKind::placeholder;
    node.target = node.name;
    node.value = number_value(device);
    return builder.append(std::move(node));
  }
  static void add_output(Node &node, const Argument &number, bool is_whole) {
    const Arguments *list = node.args.at(0).list();
    Arguments values = list ? *list : Arguments{node.args[0]};
    values.insert(is_whole ? values.begin() : values.end(), number);
    node.args[0] = std::move(values);
  }
  static Graph finish(Graph graph, std::map<std::string, Graph> subgraphs, NodeId input,
                      size_t position, const Argument &number, bool is_whole) {
    graph.subgraphs = std::move(subgraphs);
    graph::InputSpec spec;
    spec.node = input;
    spec.kind = is_whole ? graph::InputKind::failure : graph::InputKind::user;
    graph.inputs.insert(graph.inputs.begin() +
                            static_cast<std::ptrdiff_t>(std::min(position, graph.inputs.size())),
                        spec);
    graph::OutputSpec output;
    output.value = number;
    if (is_whole) {
      output.kind = graph::OutputKind::input_mutation;
      output.target = graph.node(input).name;
    }
    graph.outputs.insert(is_whole ? graph.outputs.begin() : graph.outputs.end(), output);
    return graph;
  }

  /// The number after the assertion `node`: its own if it is the first that does not hold.
  Argument noted(GraphBuilder &builder, const Node &node, const Argument &number, bool is_whole) {
    builder.set_source(node);
    assertions_.push_back(assertion_of(node));
    const auto own = static_cast<int64_t>(assertions_.size());
    const Argument failed_before = builder.call("aten.ne.Scalar", {number, 0});
    const Argument &condition = node.args[0];
    if (!condition.node() && !std::holds_alternative<Expr>(condition.value)) { // False
      if (is_whole)
        fail(node);
      return builder.call(kWhere, {failed_before, number, own});
    }
    Argument holds = condition;
    if (!condition.node())
      holds = builder.call(
          "aten.ne.Scalar",
          {builder.call("aten.full.default", {Arguments{}, condition},
                        {{"dtype", DType::i64}, {"device", builder.meta(number).device}}),
           0});
    else if (!builder.meta(condition).layout.sizes.empty())
      holds = builder.call("aten.view.default", {condition, Arguments{}});
    return builder.call(
        kWhere, {builder.call("aten.logical_or.default", {failed_before, holds}), number, own});
  }

  static bool any_asserts(const std::map<std::string, Graph> &subgraphs, const Node &node) {
    const std::vector<std::string> names = subgraph_names(node);
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string &name) { return asserts(subgraphs.at(name), false); });
  }

  /// The number goes through the subgraphs of `node`, as an operand that they replace.
  Argument through(Rewrite &rewrite, NodeId id, Node node, std::map<std::string, Graph> &subgraphs,
                   const Argument &number, tensor::Device device) {
    const std::vector<std::string> names = subgraph_names(node);
    const bool loops = node.target == kWhileLoop;
    if (loops && asserts(subgraphs.at(names[0]), false))
      throw support::UserError(
          support::ExitCode::unsupported,
          {"TSC-O124", node.target + ": the condition of a loop asserts something", "", "",
           name_of(node), source_line(node), "assert it in the body, or before the loop"});
    Argument &operands = node.args.at(loops ? 2 : 3);
    Arguments list = *operands.list();
    const size_t position = list.size();
    list.push_back(number);
    operands = std::move(list);
    Value::List values = *node.value->list();
    const auto item = static_cast<int64_t>(values.size());
    values.push_back(number_value(device));
    node.value = Value{std::move(values)};
    for (size_t i = 0; i < names.size(); ++i) {
      Graph &subgraph = subgraphs.at(names[i]);
      subgraph = loops && i == 0 ? with_unused_input(std::move(subgraph), position, device)
                                 : thread(std::move(subgraph), position, false);
    }
    rewrite.builder().set_source(node);
    const NodeId call = rewrite.builder().append(std::move(node));
    rewrite.replace(id, NodeRef{call});
    return rewrite.builder().item(NodeRef{call}, item);
  }

  static Graph with_unused_input(Graph graph, size_t position, tensor::Device device) {
    std::map<std::string, Graph> subgraphs = std::move(graph.subgraphs);
    Rewrite rewrite(std::move(graph));
    NodeId input = 0;
    for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
      if (id == position)
        input = add_input(rewrite.builder(), device);
      rewrite.copy(id);
    }
    Graph result = rewrite.take();
    result.subgraphs = std::move(subgraphs);
    graph::InputSpec spec;
    spec.node = input;
    result.inputs.insert(result.inputs.begin() + static_cast<std::ptrdiff_t>(position), spec);
    return result;
  }
};

} // namespace

graph::Graph record_assertions(graph::Graph graph, const PassOptions &) {
  return asserts(graph, true) ? Recorder().run(std::move(graph)) : std::move(graph);
}

} // namespace tsc::ops
