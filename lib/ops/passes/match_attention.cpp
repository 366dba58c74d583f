#include "ops/passes/match_attention.h"

#include "ops/table/rewrite.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>

namespace tsc::ops {

namespace {

using graph::NodeId;

template <size_t N>
bool is_one_of(const Node &node, const std::array<std::string_view, N> &targets) {
  return std::find(targets.begin(), targets.end(), node.target) != targets.end();
}
bool is_reshape(const Node &node) {
  return is_one_of(
      node, std::array<std::string_view, 4>{"aten.view.default", "aten.reshape.default",
                                            "aten._unsafe_view.default", "aten.clone.default"});
}
/// Elements are where they are told to be, and stay what they are.
bool is_view(const Node &node) {
  return is_reshape(node) ||
         is_one_of(node, std::array<std::string_view, 6>{
                             "aten.expand.default", "aten.transpose.int", "aten.permute.default",
                             "aten.unsqueeze.default", "aten.squeeze.dim", "aten.t.default"});
}
bool is_conversion(const Node &node) {
  return is_one_of(node, std::array<std::string_view, 3>{"prims.convert_element_type.default",
                                                         "aten._to_copy.default", "aten.to.dtype"});
}
bool is_product(const Node &node) {
  return is_one_of(node,
                   std::array<std::string_view, 2>{"aten.bmm.default", "aten.matmul.default"});
}
bool is_softmax(const Node &node) {
  return is_one_of(node,
                   std::array<std::string_view, 3>{"aten._softmax.default", "aten.softmax.int",
                                                   "aten._safe_softmax.default"});
}

std::optional<double> number_of(const Argument &argument) {
  if (const auto *number = std::get_if<double>(&argument.value))
    return *number;
  if (const auto *number = std::get_if<int64_t>(&argument.value))
    return static_cast<double>(*number);
  return std::nullopt;
}

/// A factor of 16 bits, and what lies between it and the product: views, and a number.
struct Factor {
  NodeId base = 0;
  std::vector<Node> views; // in the order of the graph
  double scale = 1;
  DType dtype = DType::f32;
  std::vector<Expr> sizes; // at the product
};

struct Match {
  Factor query, key, value;
  std::vector<NodeId> masks;
  std::vector<Expr> frame; // sizes of what the softmax takes
  std::vector<Expr> result;
  DType dtype = DType::f32; // of the result
  double scale = 1;
};

class Matcher {
public:
  Matcher(const Graph &graph, int64_t deepest)
      : graph_(graph), ranges_(graph.ranges()), deepest_(deepest), users_(graph.nodes.size()) {
    const auto visit = [&](NodeId user) {
      return [this, user](graph::NodeRef ref) { users_[ref.id].push_back(user); };
    };
    for (NodeId id = 0; id < graph.nodes.size(); ++id) {
      if (graph.nodes[id].target == "aten._assert_tensor_metadata.default") // holds when compiled
        continue;
      for (const Argument &argument : graph.nodes[id].args)
        graph::for_each_node(argument, visit(id));
      for (const auto &[name, argument] : graph.nodes[id].kwargs)
        graph::for_each_node(argument, visit(id));
    }
    for (const graph::OutputSpec &output : graph.outputs)
      graph::for_each_node(output.value, visit(kOutput));
  }

  /// Whether `id` is the second product.
  std::optional<Match> match(NodeId id) const {
    const Node &product = graph_.node(id);
    if (!is_product(product) || !tensor(id) || product.args.size() < 2)
      return std::nullopt;
    const auto softmax = softmax_before(product.args[0]);
    if (!softmax)
      return std::nullopt;
    Match match;
    if (!find_scores(*softmax, match))
      return std::nullopt;
    const std::optional<Factor> value = factor(product.args[1]);
    if (!value)
      return std::nullopt;
    match.value = *value;
    match.result = tensor(id)->layout.sizes;
    match.dtype = tensor(id)->dtype;
    if (!fits(match) || (match.dtype != match.query.dtype && !is_narrowed(id, match.query.dtype)))
      return std::nullopt;
    return match;
  }

private:
  static constexpr NodeId kOutput = static_cast<NodeId>(-1);
  static constexpr int kMostMasks = 4;
  const Graph &graph_;
  symbolic::Ranges ranges_;
  int64_t deepest_;
  std::vector<std::vector<NodeId>> users_;

  const TensorMeta *tensor(NodeId id) const {
    const Node &node = graph_.node(id);
    return node.value ? node.value->tensor() : nullptr;
  }
  /// The node that an argument is, if it yields floats and nobody else reads it.
  std::optional<NodeId> alone(const Argument &argument) const {
    const graph::NodeRef *ref = argument.node();
    if (ref == nullptr || users_[ref->id].size() != 1 || users_[ref->id][0] == kOutput)
      return std::nullopt;
    const TensorMeta *meta = tensor(ref->id);
    return meta && tensor::is_floating(meta->dtype) ? std::optional<NodeId>(ref->id) : std::nullopt;
  }

  /// The softmax over the last dimension that gives a product its left factor.
  std::optional<NodeId> softmax_before(const Argument &argument) const {
    std::optional<NodeId> id = alone(argument);
    while (id && (is_conversion(graph_.node(*id)) || is_reshape(graph_.node(*id)) ||
                  graph_.node(*id).target == "aten.expand.default"))
      id = alone(graph_.node(*id).args[0]);
    if (!id || !is_softmax(graph_.node(*id)) || graph_.node(*id).args.size() < 2)
      return std::nullopt;
    const auto *dimension = std::get_if<int64_t>(&graph_.node(*id).args[1].value);
    const auto rank = static_cast<int64_t>(tensor(*id)->layout.rank());
    return dimension && (*dimension == -1 || *dimension == rank - 1) ? id : std::nullopt;
  }

  /// From a softmax back to the product of queries and keys.
  bool find_scores(NodeId softmax, Match &match) const {
    match.frame = tensor(softmax)->layout.sizes;
    std::optional<NodeId> id = alone(graph_.node(softmax).args[0]);
    bool is_scaled = false, is_reshaped = false;
    while (id && !is_product(graph_.node(*id))) {
      const Node &node = graph_.node(*id);
      if (is_conversion(node)) {
        id = alone(node.args[0]);
      } else if (is_reshape(node)) {
        is_reshaped = true;
        id = alone(node.args[0]);
      } else if (const std::optional<double> by = scale_of(node)) {
        is_scaled = true;
        match.scale *= *by;
        id = alone(node.args[0]);
      } else if (node.target == "aten.add.Tensor" && node.kwargs.empty() && node.args.size() == 2 &&
                 !is_scaled && !is_reshaped) {
        const int side = side_of_scores(node);
        if (side < 0)
          return false;
        match.masks.push_back(node.args[static_cast<size_t>(1 - side)].node()->id);
        id = alone(node.args[static_cast<size_t>(side)]);
      } else {
        return false;
      }
    }
    if (!id || graph_.node(*id).args.size() < 2)
      return false;
    const std::optional<Factor> query = factor(graph_.node(*id).args[0]),
                                key = factor(graph_.node(*id).args[1]);
    if (!query || !key)
      return false;
    match.query = *query;
    match.key = *key;
    return true;
  }
  static std::optional<double> scale_of(const Node &node) {
    const bool times = node.target == "aten.mul.Tensor" || node.target == "aten.mul.Scalar",
               by = node.target == "aten.div.Tensor" || node.target == "aten.div.Scalar";
    if ((!times && !by) || node.args.size() != 2 || !node.kwargs.empty())
      return std::nullopt;
    const std::optional<double> number = number_of(node.args[1]);
    if (!number || *number == 0)
      return std::nullopt;
    return times ? *number : 1 / *number;
  }
  /// What is added to scores, as attention takes it: booleans would hide, numbers have no rows.
  bool is_mask(const Argument &argument) const {
    const graph::NodeRef *ref = argument.node();
    const TensorMeta *meta = ref ? tensor(ref->id) : nullptr;
    return meta && meta->layout.rank() >= 2 &&
           (tensor::is_reduced_float(meta->dtype) || meta->dtype == DType::f32);
  }
  /// Which operand of an addition comes from a product, through at most `additions` more, the other
  /// being a mask; -1: none, or nobody knows.
  int side_of_scores(const Node &addition, int additions = kMostMasks) const {
    int found = -1;
    if (additions == 0 || addition.args.size() != 2 || !addition.kwargs.empty())
      return found;
    for (int side = 0; side < 2; ++side) {
      if (!is_mask(addition.args[static_cast<size_t>(1 - side)]))
        continue;
      std::optional<NodeId> id = alone(addition.args[static_cast<size_t>(side)]);
      while (id && !is_product(graph_.node(*id))) {
        const Node &node = graph_.node(*id);
        if (node.target == "aten.add.Tensor") {
          if (side_of_scores(node, additions - 1) < 0)
            id = std::nullopt;
          break;
        }
        if (is_conversion(node) || is_reshape(node) || scale_of(node)) {
          id = alone(node.args[0]);
        } else {
          id = std::nullopt;
        }
      }
      if (id)
        found = found < 0 ? side : 2;
    }
    return found == 2 ? -1 : found;
  }

  std::optional<Factor> factor(const Argument &argument) const {
    const graph::NodeRef *ref = argument.node();
    if (ref == nullptr || !tensor(ref->id))
      return std::nullopt;
    Factor result;
    result.sizes = tensor(ref->id)->layout.sizes;
    NodeId id = ref->id;
    while (tensor(id) && tensor(id)->dtype == DType::f32) {
      const Node &node = graph_.node(id);
      if (node.args.empty() || node.args[0].node() == nullptr)
        return std::nullopt;
      if (is_view(node))
        result.views.insert(result.views.begin(), node);
      else if (const std::optional<double> by = scale_of(node))
        result.scale *= *by;
      else if (!is_conversion(node))
        return std::nullopt;
      id = node.args[0].node()->id;
    }
    if (!tensor(id) || !tensor::is_reduced_float(tensor(id)->dtype))
      return std::nullopt;
    result.base = id;
    result.dtype = tensor(id)->dtype;
    return result;
  }

  /// Whether sizes and dtypes are those of attention that a kernel can compute.
  bool fits(const Match &match) const {
    const std::vector<Expr> &q = match.query.sizes, &k = match.key.sizes, &v = match.value.sizes;
    const size_t rank = q.size(), frame = match.frame.size();
    if ((rank != 3 && rank != 4) || k.size() != rank || v.size() != rank ||
        (frame != rank && !(rank == 3 && frame == 4)))
      return false;
    const Expr rows = q[rank - 2], depth = q[rank - 1], columns = k[rank - 1];
    const auto leading = [&](const std::vector<Expr> &sizes) {
      return std::equal(sizes.begin(), sizes.end() - 2, q.begin());
    };
    const bool batches =
        frame == rank
            ? std::equal(match.frame.begin(), match.frame.end() - 2, q.begin())
            : symbolic::simplify(match.frame[0] * match.frame[1] - q[0], ranges_).is_integer(0);
    return batches && match.key.dtype == match.query.dtype &&
           match.value.dtype == match.query.dtype && match.value.scale == 1 && leading(k) &&
           leading(v) && k[rank - 2] == depth && v[rank - 2] == columns && v[rank - 1] == depth &&
           match.frame[frame - 2] == rows && match.frame[frame - 1] == columns &&
           depth.is_integer() && depth.value() % 8 == 0 && depth.value() >= 8 &&
           depth.value() <= deepest_ &&
           std::equal(match.result.begin(), match.result.end() - 1, q.begin()) &&
           match.scale * match.query.scale * match.key.scale > 0;
  }
  /// Whether what a float32 result becomes is of `dtype` again.
  bool is_narrowed(NodeId id, DType dtype) const {
    while (users_[id].size() == 1 && users_[id][0] != kOutput) {
      id = users_[id][0];
      if (is_conversion(graph_.node(id)))
        return tensor(id) && tensor(id)->dtype == dtype;
      if (!is_view(graph_.node(id)))
        return false;
    }
    return false;
  }
};

Argument rebuilt(Rewrite &rewrite, const Factor &factor) {
  Argument result = rewrite.mapped(graph::NodeRef{factor.base});
  for (const Node &view : factor.views) {
    Arguments args = {result};
    for (size_t i = 1; i < view.args.size(); ++i)
      args.push_back(rewrite.mapped(view.args[i]));
    result = rewrite.builder().call(view.target, std::move(args), view.kwargs);
  }
  return result;
}

/// The operator that stands for a match, in the sizes of its second product.
Argument attention(Rewrite &rewrite, const Match &match) {
  GraphBuilder &builder = rewrite.builder();
  Argument query = rebuilt(rewrite, match.query),
           key = builder.call("aten.transpose.int", {rebuilt(rewrite, match.key), -2, -1}),
           value = rebuilt(rewrite, match.value), mask = graph::None{};
  const size_t rank = match.query.sizes.size();
  if (match.frame.size() > rank) // a batch of products for batch and heads
    for (Argument *each : {&query, &key, &value}) {
      const std::vector<Expr> own = builder.meta(*each).layout.sizes;
      *each = builder.call(
          "aten.reshape.default",
          {*each, sizes_argument({match.frame[0], match.frame[1], own[rank - 2], own[rank - 1]})});
    }
  for (const graph::NodeId id : match.masks) {
    const Argument more = rewrite.mapped(graph::NodeRef{id});
    mask = mask.is_none() ? more : builder.call("aten.add.Tensor", {mask, more});
  }
  Argument result = builder.emit("aten.scaled_dot_product_attention.default",
                                 {query, key, value, mask, 0.0, false},
                                 {{"scale", match.scale * match.query.scale * match.key.scale}});
  if (match.frame.size() > rank)
    result = builder.call("aten.reshape.default", {result, sizes_argument(match.result)});
  if (match.dtype != match.query.dtype)
    result = builder.call("prims.convert_element_type.default", {result, match.dtype});
  return result;
}

} // namespace

graph::Graph match_attention(graph::Graph graph, const PassOptions &options) {
  if (options.fused_attention == 0 ||
      std::none_of(graph.nodes.begin(), graph.nodes.end(), is_softmax))
    return graph;
  std::map<NodeId, Match> matches;
  {
    const Matcher matcher(graph, options.fused_attention);
    for (NodeId id = 0; id < graph.nodes.size(); ++id)
      if (std::optional<Match> match = matcher.match(id))
        matches.emplace(id, std::move(*match));
  }
  if (matches.empty())
    return graph;
  Rewrite rewrite(std::move(graph));
  for (NodeId id = 0; id < rewrite.source().nodes.size(); ++id) {
    const auto match = matches.find(id);
    if (match == matches.end()) {
      rewrite.copy(id);
      continue;
    }
    const Node node = rewrite.take_mapped(id);
    rewrite.builder().set_source(node);
    if (options.choices)
      options.choices->push_back(node.name +
                                 ": a softmax between two products, taken as attention");
    rewrite.replace(id, attention(rewrite, match->second));
  }
  return rewrite.take();
}

} // namespace tsc::ops
