#include "ops/passes/cut_by_tensors.h"

#include "ops/passes/data_sizes.h"
#include "ops/table/rewrite.h"

#include <algorithm>
#include <optional>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeRef;

namespace {

constexpr std::string_view kCut = "aten.tensor_split.tensor_indices_or_sections";

/// The places, or the number of parts: an integer tensor whose sizes the file says.
const TensorMeta *places_of(const Graph &graph, const Node &node) {
  if (node.target != kCut || node.args.size() < 2 || !node.args[1].node() || !node.value ||
      !node.value->list() || node.value->list()->empty())
    return nullptr;
  const std::optional<Value> &value = graph.node(node.args[1].node()->id).value;
  const TensorMeta *places = value ? value->tensor() : nullptr;
  const graph::NodeRef *self = node.args[0].node();
  const bool is_tensor = self && graph.node(self->id).value && graph.node(self->id).value->tensor();
  const bool is_known = is_tensor && places && places->dtype == DType::i64 &&
                        (places->layout.rank() == 0 ||
                         (places->layout.rank() == 1 && places->layout.sizes[0].is_integer()));
  return is_known ? places : nullptr;
}

bool cuts_by_tensors(const Graph &graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(),
                     [&](const Node &node) { return places_of(graph, node) != nullptr; });
}

class Cutter {
public:
  explicit Cutter(Graph graph)
      : next_(next_symbol_number(graph, symbolic::SymbolSort::data)), rewrite_(std::move(graph)) {}

  Graph run() {
    const Graph &source = rewrite_.source();
    for (NodeId id = 0; id < source.nodes.size(); ++id)
      if (const TensorMeta *places = places_of(source, source.node(id)))
        cut(id, *places);
      else
        rewrite_.copy(id);
    Graph result = rewrite_.take();
    for (const Expr symbol : symbols_)
      result.symbols.push_back({symbol, 0, INT64_MAX});
    return result;
  }

private:
  size_t next_;
  Rewrite rewrite_;
  std::vector<Expr> symbols_; // of the places

  void cut(NodeId id, const TensorMeta &places) {
    const TensorMeta meta = places; // by value: texts of the source move
    const auto parts = static_cast<int64_t>(rewrite_.source().node(id).value->list()->size());
    Node node = rewrite_.take_mapped(id);
    const Argument from = node.args[1];
    if (meta.layout.rank() == 0) {
      item(node, from, parts);
      node.target = "aten.tensor_split.sections";
      node.args[1] = parts;
    } else {
      const Argument wrapped = within(node, from, size_along(node));
      Arguments ends;
      for (int64_t k = 0; k < meta.layout.sizes[0].value(); ++k) {
        const Argument place = append(node, "aten.select.int", {wrapped, 0, k}, std::nullopt);
        symbols_.push_back(symbolic::symbol(symbolic::SymbolSort::data, next_++));
        item(node, place, symbols_.back());
        ends.emplace_back(symbols_.back());
      }
      node.target = "aten.tensor_split.indices";
      node.args[1] = std::move(ends);
    }
    rewrite_.replace(id, NodeRef{rewrite_.builder().append(std::move(node))});
  }

  /// Of the dimension that is cut: by the file, which the check holds it to.
  Argument size_along(const Node &node) const {
    const Argument *dim = node.args.size() > 2 ? &node.args[2] : nullptr;
    for (const auto &keyword : node.kwargs)
      if (keyword.first == "dim")
        dim = &keyword.second;
    const auto *given = dim ? std::get_if<int64_t>(&dim->value) : nullptr;
    const Node &self = rewrite_.builder().graph().node(node.args[0].node()->id);
    const std::vector<Expr> &sizes = self.value->tensor()->layout.sizes;
    int64_t at = given ? *given : 0;
    at += at < 0 ? static_cast<int64_t>(sizes.size()) : 0;
    return size_argument(at >= 0 && at < static_cast<int64_t>(sizes.size()) ? sizes[at] : Expr(0));
  }

  /// Places as slices take them: negative ones from the end, none outside. A size that they bound
  /// is none below 0.
  Argument within(const Node &like, const Argument &places, const Argument &size) {
    const auto computed = [&](const char *target, Arguments args) {
      return append(like, target, std::move(args), std::nullopt);
    };
    const Argument is_from_end = computed("aten.lt.Scalar", {places, 0});
    const Argument moved = computed("aten.add.Scalar", {places, size});
    const Argument chosen = computed("aten.where.self", {is_from_end, moved, places});
    return computed("aten.clamp.default", {chosen, 0, size});
  }

  void item(const Node &like, const Argument &place, Expr number) {
    append(like, "aten.item.default", {place}, Value{number});
  }

  Argument append(const Node &like, const std::string &target, Arguments args,
                  std::optional<Value> value) {
    Node node = like;
    node.name = rewrite_.builder().fresh_name(target);
    node.target = target;
    node.args = std::move(args);
    node.kwargs.clear();
    node.value = std::move(value);
    node.recorded_strides.clear();
    return NodeRef{rewrite_.builder().append(std::move(node))};
  }
};

} // namespace

graph::Graph cut_by_tensors(graph::Graph graph, const PassOptions &options) {
  for (auto &subgraph : graph.subgraphs)
    subgraph.second = cut_by_tensors(std::move(subgraph.second), options);
  return cuts_by_tensors(graph) ? Cutter(std::move(graph)).run() : std::move(graph);
}

} // namespace tsc::ops
