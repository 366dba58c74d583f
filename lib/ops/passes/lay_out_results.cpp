#include "ops/passes/passes.h"
#include "ops/table/memory_format.h"
#include "ops/table/rewrite.h"

#include <algorithm>

namespace tsc::ops {

namespace {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

/// The layout that the file gives a node's tensor, where it is another one than was inferred and
/// dense; nothing for others.
std::optional<tensor::Layout> recorded_layout(const Node &node) {
  const TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
  if (node.recorded_strides.empty() || !meta)
    return std::nullopt;
  tensor::Layout layout = tensor::contiguous_layout(meta->layout.sizes);
  const std::vector<size_t> order = tensor::stride_order(node.recorded_strides);
  layout.strides = tensor::strides_in_order(layout.sizes, order);
  for (size_t i = 0; i < layout.rank(); ++i) {
    if (!layout.sizes[i].is_integer(1) && layout.strides[i] != node.recorded_strides[i])
      return std::nullopt;
  }
  return layout;
}

/// Of each node the layout that it is to have as a result: of those that only the user gets, and
/// that are fresh tensors.
std::vector<std::optional<tensor::Layout>> layouts_of_results(const Graph &graph) {
  std::vector<std::optional<tensor::Layout>> layouts(graph.nodes.size());
  for (const graph::OutputSpec &output : graph.outputs) {
    const NodeRef *result = output.value.node();
    const Operator *row = result ? find_operator(graph.node(result->id).target) : nullptr;
    if (row && row->effect != Effect::view && output.kind == graph::OutputKind::user)
      layouts[result->id] = recorded_layout(graph.node(result->id));
  }
  for (const graph::OutputSpec &output : graph.outputs) {
    if (output.value.node() && output.kind != graph::OutputKind::user)
      layouts[output.value.node()->id].reset();
  }
  return layouts;
}

} // namespace

graph::Graph lay_out_results(graph::Graph graph, const PassOptions &) {
  const std::vector<std::optional<tensor::Layout>> layouts = layouts_of_results(graph);
  if (std::none_of(layouts.begin(), layouts.end(), [](const auto &layout) { return layout; }))
    return graph;
  Rewrite rewrite(std::move(graph));
  for (NodeId id = 0; id < layouts.size(); ++id) {
    if (rewrite.source().node(id).kind == NodeKind::output) { // all other users have been visited
      for (NodeId result = 0; result < layouts.size(); ++result) {
        if (!layouts[result])
          continue;
        rewrite.builder().set_source(rewrite.source().node(result));
        rewrite.replace(
            result, in_layout(rewrite.builder(), rewrite.replacement(result), *layouts[result]));
      }
    }
    rewrite.copy(id);
  }
  return rewrite.take();
}

} // namespace tsc::ops
