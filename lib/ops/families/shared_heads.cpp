// Keys and values that a model repeats for the heads of a group, as exports of grouped-query
// attention write it: x [batch, heads, length, depth] -> unsqueeze(2) -> expand to [batch, heads,
// group, length, depth] -> a copy -> view as [batch, heads * group, length, depth].
#include "ops/families/attention.h"
#include "ops/families/flex_attention.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using graph::Argument;
using graph::Graph;
using graph::Node;
using graph::NodeRef;

constexpr std::string_view kAttention = "tsc.attention.default";
constexpr size_t kKey = 1, kValue = 2, kGrouped = 6; // arguments of it

const std::vector<Expr> *sizes_of(const Node &node) {
  const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
  return meta ? &meta->layout.sizes : nullptr;
}
/// The node that the first argument names, if `node` is a call of one of `targets`.
const Node *first_of(const Graph &graph, const Node &node,
                     std::initializer_list<std::string_view> targets) {
  if (std::find(targets.begin(), targets.end(), node.target) == targets.end() || node.args.empty())
    return nullptr;
  const NodeRef *first = node.args[0].node();
  return first ? &graph.node(first->id) : nullptr;
}

/// What `argument` repeats, and how many times; nothing if it repeats nothing.
struct Repeated {
  Argument argument;
  Expr group;
};
std::optional<Repeated> repeated(const Graph &graph, const Argument &argument) {
  const NodeRef *ref = argument.node();
  if (ref == nullptr)
    return std::nullopt;
  const Node &heads = graph.node(ref->id);
  const Node *wide = first_of(
      graph, heads, {"aten.view.default", "aten._unsafe_view.default", "aten.reshape.default"});
  while (wide != nullptr && wide->target == "aten.clone.default")
    wide = first_of(graph, *wide, {"aten.clone.default"});
  const Node *one = wide ? first_of(graph, *wide, {"aten.expand.default"}) : nullptr;
  const Node *own = one ? first_of(graph, *one, {"aten.unsqueeze.default"}) : nullptr;
  if (own == nullptr)
    return std::nullopt;
  const std::vector<Expr> *all = sizes_of(heads), *grouped = sizes_of(*wide),
                          *single = sizes_of(*one), *before = sizes_of(*own);
  if (!all || !grouped || !single || !before || all->size() != 4 || grouped->size() != 5 ||
      single->size() != 5 || before->size() != 4)
    return std::nullopt;
  constexpr size_t kHeads = 1, kGroup = 2;
  std::vector<Expr> of_all = *grouped, of_single = *before;
  of_all[kHeads] = of_all[kHeads] * of_all[kGroup];
  of_all.erase(of_all.begin() + kGroup);
  of_single.insert(of_single.begin() + kGroup, Expr(1));
  std::vector<Expr> expanded = of_single;
  expanded[kGroup] = (*grouped)[kGroup];
  if (of_all != *all || of_single != *single || expanded != *grouped)
    return std::nullopt;
  return Repeated{one->args[0], (*grouped)[kGroup]};
}

} // namespace

void share_heads(Graph &graph) {
  for (Node &node : graph.nodes) {
    // Where functions change scores, sizes alone say who shares.
    const bool by_sizes = node.target == kFlexAttention || is_fused_flex_attention(node.target);
    if (!by_sizes && (node.target != kAttention || !(node.args.at(kGrouped) == Argument(false))))
      continue;
    const std::optional<Repeated> key = repeated(graph, node.args.at(kKey)),
                                  value = repeated(graph, node.args.at(kValue));
    const NodeRef *query = node.args.at(0).node();
    if (!key || !value || key->group != value->group || !query)
      continue;
    const std::vector<Expr> *rows = sizes_of(graph.node(query->id)),
                            *keys = sizes_of(graph.node(node.args[kKey].node()->id)),
                            *values = sizes_of(graph.node(node.args[kValue].node()->id));
    const auto same_heads = [&](const std::vector<Expr> &sizes) {
      return rows->size() == 4 && (*rows)[0] == sizes[0] && (*rows)[1] == sizes[1];
    };
    if (rows == nullptr || !same_heads(*keys) || !same_heads(*values))
      continue; // they broadcast
    node.args[kKey] = key->argument;
    node.args[kValue] = value->argument;
    if (!by_sizes)
      node.args[kGrouped] = Argument(true);
  }
}

} // namespace tsc::ops
