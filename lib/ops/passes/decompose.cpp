#include "ops/passes/decompose.h"

#include "ops/families/attention.h"
#include "ops/families/dead_nodes.h"
#include "ops/families/flex_attention.h"
#include "ops/families/row_sums.h"
#include "ops/passes/clean_up.h"
#include "ops/passes/convolution_layouts.h"
#include "ops/table/precision.h"
#include "ops/table/rewrite.h"
#include "ops/table/varying_dtypes.h"

#include <algorithm>
#include <iterator>
#include <set>

namespace tsc::ops {

using graph::NodeKind;

namespace {

constexpr std::string_view kAttention = "tsc.attention.default",
                           kConvolution = "aten.convolution.default";

/// An int or bool that depends on sizes alone: users take it as an argument.
std::optional<Argument> as_scalar(const Node &node) {
  if (!node.value)
    return std::nullopt;
  if (const Expr *expr = std::get_if<Expr>(&node.value->value))
    return size_argument(*expr);
  return std::nullopt;
}

/// `result` in the dtypes of `value`: those that the graph records, where PyTorch's devices differ.
Argument in_recorded_dtypes(GraphBuilder &builder, const Argument &result, const Value &value) {
  if (const Arguments *list = result.list()) {
    const Value::List *values = value.list();
    Arguments items = *list;
    for (size_t i = 0; values && i < items.size() && i < values->size(); ++i)
      items[i] = in_recorded_dtypes(builder, items[i], (*values)[i]);
    return items;
  }
  const TensorMeta *meta = value.tensor();
  return meta && result.node() ? convert(builder, result, meta->dtype) : result;
}

void rewrite_call(Rewrite &rewrite, graph::NodeId id, const Node &old) {
  const Operator &row = *find_operator(old.target);
  if (old.target == "operator.getitem") { // of a list that may be long: not copied
    const graph::NodeRef *whole = old.args.at(0).node();
    const Argument &of = whole ? rewrite.replacement(whole->id) : old.args.at(0);
    if (const Arguments *list = of.list()) {
      const Argument &position = old.args.at(1); // True is an int, too
      const bool *truth = std::get_if<bool>(&position.value);
      const auto index =
          static_cast<size_t>(truth ? int64_t{*truth} : std::get<int64_t>(position.value));
      rewrite.replace(id, whole ? list->at(index) : rewrite.mapped(list->at(index)));
      return;
    }
  }
  Node node = rewrite.take_mapped(id);
  GraphBuilder &builder = rewrite.builder();
  builder.set_source(node);
  if (!row.decompose || builder.is_composite(row.name)) {
    // Values are inferred anew: strides may have changed upstream.
    node.value = infer_value(builder.graph(), node, builder.shared_ranges());
    rewrite.replace(id, graph::NodeRef{builder.append(std::move(node))});
    return;
  }
  Argument result = row.decompose(builder, rewrite.call(node, row));
  if (node.value && !why_dtypes_vary(row.name).empty())
    result = in_recorded_dtypes(builder, result, *node.value);
  rewrite.replace(id, std::move(result));
}

} // namespace

graph::Graph decompose_keeping(graph::Graph graph, std::unordered_set<std::string_view> composites,
                               const Facilities &facilities) {
  Rewrite rewrite(std::move(graph), std::move(composites));
  rewrite.builder().set_facilities(facilities);
  for (graph::NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    const Node &old = rewrite.source().node(id);
    if (old.kind == NodeKind::call_function) {
      rewrite_call(rewrite, id, old);
      continue;
    }
    rewrite.copy(id);
    // A symbolic int that is an input: its users take the symbol.
    std::optional<Argument> scalar =
        old.kind == NodeKind::placeholder ? as_scalar(old) : std::nullopt;
    if (scalar)
      rewrite.replace_uses(id, *scalar);
  }
  return rewrite.take();
}

graph::Graph decompose(graph::Graph graph, const PassOptions &options) {
  std::unordered_set<std::string_view> kept = {kAttention, kFlexAttention, kConvolution, kSumAt};
  kept.insert(attention_backward_forms().begin(), attention_backward_forms().end());
  return decompose_keeping(std::move(graph), std::move(kept),
                           Facilities{.product_kernels = options.product_kernels});
}

namespace {

bool calls(const Graph &graph, std::string_view target) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node &node) { return node.target == target; });
}

} // namespace

graph::Graph decompose_attention(graph::Graph graph, const PassOptions &options) {
  if (std::none_of(graph.nodes.begin(), graph.nodes.end(), [](const Node &node) {
        return node.target == kAttention || node.target == kFlexAttention ||
               is_fused_flex_attention(node.target) || is_attention_backward(node.target);
      }))
    return graph;
  if (options.fused_attention > 0) {
    share_heads(graph);
    // What decompositions made of sums that nobody takes is gone before it is asked who takes them.
    if (graph.stage != "post_grad" && !has_ordered_operators(graph))
      graph = remove_dead_nodes(std::move(graph));
    choose_fused_attention(
        graph, {options.fused_attention, options.attention_parts, options.float_attention_pays});
    mark_flex_attention(graph);
  }
  return decompose_keeping(std::move(graph), {kConvolution, kSumAt},
                           {false, options.attention_backward, options.attention_backward_groups,
                            options.fused_attention});
}

graph::Graph decompose_convolution(graph::Graph graph, const PassOptions &options) {
  if (!calls(graph, kConvolution))
    return graph;
  if (options.product_kernels) {
    ConvolutionLayouts layouts = choose_convolution_layouts(graph);
    for (graph::NodeId id = 0; id < graph.nodes.size(); ++id)
      if (layouts.inside[id])
        graph.nodes[id].target = "tsc.convolution_inside.default";
      else if (layouts.outside[id])
        graph.nodes[id].target = "tsc.convolution_outside.default";
    if (options.choices)
      std::move(layouts.choices.begin(), layouts.choices.end(),
                std::back_inserter(*options.choices));
  }
  std::set<std::string> others; // names of products that no convolution is made of
  for (const Node &node : graph.nodes)
    others.insert(node.name);
  graph = decompose_keeping(std::move(graph), {kSumAt}, {options.product_kernels, 0});
  if (options.tf32_convolutions)
    for (Node &node : graph.nodes)
      if (others.count(node.name) == 0) {
        if (node.target == "aten.mm.default")
          node.target = "tsc.convolution_mm.default";
        else if (node.target == "aten.bmm.default")
          node.target = "tsc.convolution_bmm.default";
      }
  return graph;
}

} // namespace tsc::ops
