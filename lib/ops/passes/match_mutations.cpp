// What a decomposed export stores in an input or buffer is copied there as copy_ does: converted to
// its dtype and broadcast to its sizes.
#include "ops/passes/passes.h"
#include "ops/table/builder.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"

namespace tsc::ops {

namespace {

/// The tensor that the output changes; null if it changes none.
const TensorMeta *changed_by(const Graph &graph, const graph::OutputSpec &output) {
  const bool by_name = output.kind == graph::OutputKind::input_mutation;
  if (!by_name && output.kind != graph::OutputKind::buffer_mutation &&
      output.kind != graph::OutputKind::parameter_mutation)
    return nullptr;
  for (const graph::InputSpec &input : graph.inputs) {
    const Node &node = graph.node(input.node);
    if ((by_name ? node.name : input.target) == output.target)
      return node.value ? node.value->tensor() : nullptr;
  }
  return nullptr;
}

} // namespace

graph::Graph match_mutations(graph::Graph graph, const PassOptions &) {
  struct Change {
    size_t output = 0;
    TensorMeta to;
  };
  std::vector<Change> changes;
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const TensorMeta *to = changed_by(graph, graph.outputs[i]);
    const graph::NodeRef *value = graph.outputs[i].value.node();
    const TensorMeta *from =
        value && graph.node(value->id).value ? graph.node(value->id).value->tensor() : nullptr;
    if (to && from && (to->dtype != from->dtype || to->layout.sizes != from->layout.sizes))
      changes.push_back({i, *to});
  }
  if (changes.empty())
    return graph;
  Node output = std::move(graph.nodes.back()); // nobody's argument
  graph.nodes.pop_back();
  {
    GraphBuilder builder(graph, std::make_shared<const symbolic::Ranges>(graph.ranges()));
    builder.set_source(output);
    for (const Change &change : changes) {
      Argument &value = graph.outputs[change.output].value;
      value = builder.call("aten.expand.default", {convert(builder, value, change.to.dtype),
                                                   sizes_argument(change.to.layout.sizes)});
      std::get<Arguments>(output.args.at(0).value).at(change.output) = value;
    }
  }
  graph.nodes.push_back(std::move(output));
  return graph;
}

} // namespace tsc::ops
