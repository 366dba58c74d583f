// Small graphs by hand.
#pragma once

#include "graph/graph.h"
#include "ops/passes/passes.h"

namespace tsc::ops::testing {

class SampleGraph {
public:
  graph::Argument input(const std::string &name, tensor::DType dtype,
                        std::vector<symbolic::Expr> sizes,
                        graph::InputKind kind = graph::InputKind::user) {
    graph::TensorMeta meta;
    meta.dtype = dtype;
    meta.layout = tensor::contiguous_layout(std::move(sizes));
    graph::Node node;
    node.name = node.target = name;
    node.kind = graph::NodeKind::placeholder;
    node.value = graph::Value{meta};
    std::string target = kind == graph::InputKind::user ? "" : "module." + name;
    graph_.inputs.push_back(
        {kind, static_cast<graph::NodeId>(graph_.nodes.size()), target, true, {}});
    return append(std::move(node));
  }
  graph::Argument call(const std::string &name, const std::string &target,
                       graph::Argument::List args,
                       std::vector<std::pair<std::string, graph::Argument>> kwargs = {}) {
    graph::Node node;
    node.name = name;
    node.target = target;
    node.args = std::move(args);
    node.kwargs = std::move(kwargs);
    node.stack_trace = "  File \"model.py\", line " + std::to_string(graph_.nodes.size()) +
                       ", in forward\n    y = f(x)\n";
    return append(std::move(node));
  }
  /// The file gives the last node this tensor.
  void record(const graph::TensorMeta &meta) { graph_.nodes.back().value = graph::Value{meta}; }
  graph::Graph finish(graph::Argument::List outputs) {
    graph::Node node;
    node.name = node.target = "output";
    node.kind = graph::NodeKind::output;
    node.args = {outputs};
    graph_.nodes.push_back(std::move(node));
    for (const graph::Argument &output : outputs)
      graph_.outputs.push_back({graph::OutputKind::user, output, ""});
    return graph_;
  }

private:
  graph::Graph graph_;
  graph::Argument append(graph::Node node) {
    graph_.nodes.push_back(std::move(node));
    return graph::NodeRef{static_cast<graph::NodeId>(graph_.nodes.size() - 1)};
  }
};

/// "name = target(args)" of every call, one a line, in the FX text's spelling.
inline std::string calls_of(const graph::Graph &graph) {
  std::string text = graph::to_text(graph), result;
  size_t at = 0;
  while ((at = text.find("call_function[target=", at)) != std::string::npos) {
    size_t name = text.rfind('%', at) + 1;
    size_t end = text.find('\n', at);
    std::string line = text.substr(at + 21, end - at - 21);
    if (line.substr(0, 10) == "torch.ops.")
      line.erase(0, 10);
    line.erase(line.find(']'), 1);
    size_t keywords = line.find(", kwargs = {})");
    if (keywords != std::string::npos)
      line = line.substr(0, keywords) + ")";
    size_t args = line.find("args = (");
    line.erase(args, 8);
    if (line.size() > 1 && line.substr(line.size() - 2) == "))")
      line.pop_back();
    size_t comma = line.find(",)");
    if (comma != std::string::npos)
      line.erase(comma, 1);
    result += text.substr(name, text.find(' ', name) - name) + " = " + line + "\n";
    at = end;
  }
  return result;
}

} // namespace tsc::ops::testing
