#include "minimize.h"

#include "rebuild.h"

#include "driver/compile.h"
#include "driver/reference.h"

#include <chrono>
#include <map>
#include <optional>

namespace tsc::differential {
namespace {

using graph::Graph;
using graph::Node;
using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;
using tensor::HostTensor;

bool writes(const Node &node) {
  const ops::Operator *row = ops::find_operator(node.target);
  return row && row->schema.is_mutable();
}

/// The subject with an input in the place of a call: what the call yields, or zeros where that
/// cannot be computed.
std::optional<Subject> with_input(const Subject &subject, NodeId id) {
  const graph::TensorMeta *meta = subject.graph.nodes[id].value->tensor();
  const auto sizes = static_sizes(subject.graph.nodes[id].value);
  if (!meta || !sizes)
    return std::nullopt;
  HostTensor value(meta->dtype, *sizes);
  for (int64_t i = 0; i < value.numel(); ++i)
    value.set_int64(i, i % 3);
  try {
    Subject probe = subject;
    probe.graph.outputs = {{graph::OutputKind::user, NodeRef{id}, ""}};
    refresh_output_node(probe.graph);
    const driver::Compilation compilation = driver::compile(probe.graph, {});
    const auto outputs = driver::run_reference(compilation, probe.inputs, {});
    for (size_t i = 0; i < outputs.size(); ++i)
      if (compilation.program.outputs[i].name == "output_0")
        value = outputs[i].clone();
  } catch (const std::exception &) {
  }
  Subject result = subject;
  Node &node = result.graph.nodes[id];
  graph::TensorMeta plain = *meta;
  plain.layout = tensor::contiguous_layout(meta->layout.sizes);
  node.kind = NodeKind::placeholder;
  node.target = node.name;
  node.args.clear();
  node.kwargs.clear();
  node.value = graph::Value{plain};
  graph::InputSpec spec;
  spec.node = id;
  result.graph.inputs.push_back(spec);
  result.inputs.push_back(std::move(value));
  result.graph = inputs_first(result.graph);
  return result;
}

/// The subject with a call's first argument in its place.
std::optional<Subject> bypassed(const Subject &subject, NodeId id) {
  const Node &node = subject.graph.nodes[id];
  if (node.args.empty() || !node.args[0].node())
    return std::nullopt;
  std::vector<NodeId> replacement(subject.graph.nodes.size());
  for (NodeId i = 0; i < replacement.size(); ++i)
    replacement[i] = i;
  replacement[id] = node.args[0].node()->id;
  Subject result = subject;
  replace_references(result.graph, replacement);
  std::vector<NodeId> order;
  for (NodeId i = 0; i < replacement.size(); ++i)
    if (i != id)
      order.push_back(i);
  result.graph = in_order(result.graph, order);
  for (Node &later : result.graph.nodes) // sizes may be others now
    if (later.kind == NodeKind::call_function)
      later.value.reset();
  return result;
}

} // namespace

Subject without_dead(const Subject &subject) {
  const Graph &graph = subject.graph;
  std::vector<bool> needed(graph.nodes.size(), false);
  needed.back() = true;
  for (NodeId id = static_cast<NodeId>(graph.nodes.size()); id-- > 0;) {
    if (writes(graph.nodes[id]))
      needed[id] = true;
    if (needed[id])
      for_each_argument(graph, id, [&](NodeId argument) { needed[argument] = true; });
  }
  std::vector<NodeId> order;
  for (NodeId id = 0; id < graph.nodes.size(); ++id)
    if (needed[id])
      order.push_back(id);
  Subject result;
  Graph kept = graph;
  kept.inputs.clear();
  for (size_t i = 0; i < graph.inputs.size(); ++i)
    if (needed[graph.inputs[i].node]) {
      kept.inputs.push_back(graph.inputs[i]);
      result.inputs.push_back(subject.inputs[i]);
    }
  result.graph = in_order(kept, order);
  return result;
}

Subject minimized(Subject subject, const std::function<bool(const Subject &)> &fails,
                  double seconds) {
  const auto start = std::chrono::steady_clock::now();
  const auto late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() >
           seconds;
  };
  const auto accept = [&](std::optional<Subject> candidate) {
    if (!candidate)
      return false;
    *candidate = without_dead(*candidate);
    if (!fails(*candidate))
      return false;
    subject = std::move(*candidate);
    return true;
  };
  accept(subject);
  for (bool changed = true; changed && !late();) {
    changed = false;
    for (size_t i = subject.graph.outputs.size(); i-- > 0 && !late();) {
      if (subject.graph.outputs.size() < 2 || i >= subject.graph.outputs.size())
        continue;
      Subject candidate = subject;
      candidate.graph.outputs.erase(candidate.graph.outputs.begin() +
                                    static_cast<std::ptrdiff_t>(i));
      refresh_output_node(candidate.graph);
      changed |= accept(std::move(candidate));
    }
    for (NodeId id = 0; id < subject.graph.nodes.size() && !late(); ++id) {
      if (subject.graph.nodes[id].kind != NodeKind::call_function)
        continue;
      const size_t before = subject.graph.nodes.size();
      const bool smaller = accept(bypassed(subject, id)) ||
                           (!writes(subject.graph.nodes[id]) && subject.graph.nodes[id].value &&
                            subject.graph.nodes[id].args != std::vector<graph::Argument>{} &&
                            accept(with_input(subject, id)));
      if (smaller && subject.graph.nodes.size() < before)
        id = 0;
      changed |= smaller && subject.graph.nodes.size() < before;
    }
  }
  return subject;
}

} // namespace tsc::differential
