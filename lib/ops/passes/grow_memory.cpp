// resize_ to more elements than the memory holds: the memory has them from the start, so that every
// view of it, older and newer ones, sees the same.
#include "ops/passes/passes.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"

#include <map>

namespace tsc::ops {

namespace {

using graph::NodeId;
using graph::NodeKind;

bool is_resize(const Node &node) {
  for (const std::string_view name : {"aten.resize_.default", "aten.resize.default",
                                      "aten.resize_as_.default", "aten.resize_as.default"})
    if (node.target == name)
      return node.kind == NodeKind::call_function && !node.args.empty() && node.args[0].node();
  return false;
}

/// The node whose memory `id` is, through views and results that are a written argument.
NodeId memory_behind(const Graph &graph, NodeId id) {
  while (true) {
    const Node &node = graph.node(id);
    const Operator *row =
        node.kind == NodeKind::call_function ? find_operator(node.target) : nullptr;
    if (!row || node.args.empty() || !node.args[0].node())
      return id;
    const bool is_written = row->effect == Effect::mutates && row->schema.returns.size() == 1 &&
                            ops::is_written(row->schema.parameters[0]);
    if (row->effect != Effect::view && !is_written)
      return id;
    id = node.args[0].node()->id;
  }
}

/// The elements that memories grow to; nothing of those that a caller gives, and of sizes that
/// nobody can compare.
std::map<NodeId, Expr> grown_memories(const Graph &graph) {
  std::map<NodeId, Expr> grown;
  const symbolic::Ranges ranges = graph.ranges();
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node &node = graph.node(id);
    if (!is_resize(node) || !node.value || !node.value->tensor())
      continue;
    const NodeId memory = memory_behind(graph, node.args[0].node()->id);
    const Node &owner = graph.node(memory);
    if (owner.kind != NodeKind::call_function || !owner.value || !owner.value->tensor() ||
        owner.value->tensor()->dtype != node.value->tensor()->dtype)
      continue;
    const auto found = grown.find(memory);
    const Expr held =
        found != grown.end() ? found->second : owner.value->tensor()->layout.storage_size();
    const Expr asked = node.value->tensor()->layout.storage_size();
    if (!symbolic::known_less_equal(asked, held, ranges) &&
        symbolic::known_less_equal(held, asked, ranges))
      grown[memory] = asked;
  }
  return grown;
}

/// `x` at the beginning of memory of `elements` elements; nobody has written the others.
Argument in_larger_memory(GraphBuilder &builder, const Argument &x, Expr elements) {
  const TensorMeta meta = builder.meta(x);
  const Expr held = meta.layout.storage_size();
  const Argument line =
      builder.call("aten.as_strided.default", {x, sizes_argument({held}), Arguments{1}, 0});
  const Argument more =
      builder.call("aten.empty.memory_format", {sizes_argument({elements - held})},
                   {{"dtype", meta.dtype}, {"device", meta.device}});
  const Argument whole = builder.call("aten.cat.default", {Arguments{line, more}, 0});
  return builder.call("aten.as_strided.default",
                      {whole, sizes_argument(meta.layout.sizes),
                       sizes_argument(meta.layout.strides), size_argument(meta.layout.offset)});
}

} // namespace

graph::Graph grow_memory(graph::Graph graph, const PassOptions &) {
  const std::map<NodeId, Expr> grown = grown_memories(graph);
  if (grown.empty())
    return graph;
  Rewrite rewrite(std::move(graph));
  for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    rewrite.copy(id);
    const auto found = grown.find(id);
    if (found == grown.end())
      continue;
    rewrite.builder().set_source(rewrite.source().node(id));
    const Argument own = rewrite.replacement(id);
    rewrite.replace(id, in_larger_memory(rewrite.builder(), own, found->second));
  }
  return rewrite.take();
}

} // namespace tsc::ops
