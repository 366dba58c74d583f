// Batch dimensions stand in front of an element's own. Elementwise operators broadcast, once the
// elements of fewer dimensions have theirs behind the batch; everything else moves the dimensions
// that it names.
#include "ops/families/batched_graph.h"

#include "ops/families/control_flow.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/rewrite.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace tsc::ops {

using graph::NodeId;
using graph::NodeKind;
using graph::NodeRef;

const Graph &subgraph_of(const Call &call, const Argument &argument) {
  const auto *direct = std::get_if<graph::GraphRef>(&argument.value);
  const NodeRef *node = argument.node();
  const std::string name = direct ? direct->name : node ? call.graph().node(node->id).target : "";
  const auto found = call.graph().subgraphs.find(name);
  if (found == call.graph().subgraphs.end())
    call.fail("TSC-O125", call.node().target + ": an argument that is to be a subgraph is none",
              "name one of the graph's subgraphs");
  return found->second;
}

const Graph &subgraph_of(const Call &call, std::string_view parameter) {
  return subgraph_of(call, call[parameter]);
}

Graph prepared_body(const Call &call, const Graph &body,
                    const std::vector<std::optional<TensorMeta>> &operands) {
  Graph graph = body;
  graph.symbols = call.graph().symbols;
  graph.inputs.clear();
  graph.outputs.clear();
  size_t placeholders = 0;
  for (NodeId id = 0; id < graph.nodes.size(); ++id) {
    Node &node = graph.nodes[id];
    if (node.kind != NodeKind::placeholder)
      break;
    if (placeholders < operands.size() && operands[placeholders])
      node.value = Value{*operands[placeholders]};
    graph.inputs.push_back({graph::InputKind::user, id, "", true, {}});
    ++placeholders;
  }
  if (placeholders != operands.size())
    call.fail("TSC-O125",
              call.node().target + ": a subgraph takes " + std::to_string(placeholders) +
                  " operands, and the call gives " + std::to_string(operands.size()),
              "export the graph again");
  Argument &yielded = graph.nodes.back().args.at(0);
  if (!yielded.list())
    yielded = Arguments{yielded};
  for (const Argument &value : *yielded.list())
    graph.outputs.push_back({graph::OutputKind::user, value, ""});
  graph = decomposed(std::move(graph));
  for (const graph::OutputSpec &output : graph.outputs) {
    if (output.kind != graph::OutputKind::user)
      call.refuse("TSC-O125",
                  call.node().target + ": a subgraph writes to its operand " + output.target,
                  "return the new value instead");
    const NodeRef *node = output.value.node();
    if (!node || !graph.node(node->id).value || !graph.node(node->id).value->tensor())
      call.refuse("TSC-O125", call.node().target + ": a subgraph yields something not a tensor",
                  "make it a tensor: torch.tensor(number)");
  }
  return graph;
}

std::vector<Argument> spliced(GraphBuilder &builder, const Graph &prepared,
                              const std::vector<Argument> &inputs) {
  std::vector<Argument> replacements(prepared.nodes.size());
  std::map<std::string, std::string> subgraphs; // what they are called now
  const auto subgraph = [&](const std::string &name) {
    const auto [entry, is_new] = subgraphs.try_emplace(name);
    if (is_new)
      entry->second = builder.add_subgraph(name, prepared.subgraphs.at(name));
    return Argument(graph::GraphRef{entry->second});
  };
  const auto mapped = [&](const Argument &argument) {
    if (const auto *reference = std::get_if<graph::GraphRef>(&argument.value))
      return subgraph(reference->name);
    return map_references(argument, [&](NodeRef reference) { return replacements[reference.id]; });
  };
  for (NodeId id = 0; id < prepared.nodes.size(); ++id) {
    const Node &old = prepared.node(id);
    if (old.kind == NodeKind::get_attr && prepared.subgraphs.count(old.target) != 0) {
      replacements[id] = subgraph(old.target);
      continue;
    }
    if (old.kind == NodeKind::placeholder) {
      replacements[id] = inputs.at(id);
      continue;
    }
    if (old.kind == NodeKind::output)
      break;
    Arguments args;
    Keywords kwargs;
    for (const Argument &argument : old.args)
      args.push_back(mapped(argument));
    for (const auto &[name, argument] : old.kwargs)
      kwargs.emplace_back(name, mapped(argument));
    replacements[id] = builder.call(old.target, std::move(args), std::move(kwargs));
  }
  std::vector<Argument> results;
  for (const graph::OutputSpec &output : prepared.outputs)
    results.push_back(replacements[output.value.node()->id]);
  return results;
}

namespace {

enum class Way : uint8_t { elementwise, creation, reduction, scan, other };

/// What can reach lowering (lib/ops/README.md), as far as it can be computed for a batch.
const std::unordered_map<std::string_view, Way> &ways() {
  static const std::unordered_map<std::string_view, Way> all = [] {
    std::unordered_map<std::string_view, Way> ways;
    for (const std::string_view name :
         {"abs",         "acos",  "acosh",       "asin",       "asinh",       "atan",
          "atanh",       "ceil",  "cos",         "cosh",       "erf",         "erfc",
          "exp",         "exp2",  "expm1",       "floor",      "isinf",       "isnan",
          "lgamma",      "log",   "log10",       "log1p",      "log2",        "neg",
          "reciprocal",  "relu",  "round",       "rsqrt",      "sigmoid",     "sign",
          "signbit",     "sin",   "sinh",        "sqrt",       "tan",         "tanh",
          "trunc",       "atan2", "hypot",       "nextafter",  "maximum",     "minimum",
          "erfinv",      "i0",    "logical_and", "logical_or", "logical_xor", "logical_not",
          "bitwise_not", "clone"})
      ways[keep_text("aten." + std::string(name) + ".default")] = Way::elementwise;
    for (const std::string_view name :
         {"add", "sub", "mul", "div", "bitwise_and", "bitwise_or", "bitwise_xor",
          "bitwise_left_shift", "bitwise_right_shift", "eq", "ne", "lt", "le", "gt", "ge", "fmod",
          "remainder", "copysign"})
      ways[keep_text("aten." + std::string(name) + ".Tensor")] = Way::elementwise;
    for (const std::string_view name :
         {"aten.div.Tensor_mode", "aten.pow.Tensor_Tensor", "aten.pow.Tensor_Scalar",
          "aten.pow.Scalar", "aten.where.self", "prims.convert_element_type.default",
          "aten.view.dtype", "tsc.clone_strided.default"})
      ways[name] = Way::elementwise;
    for (const std::string_view name : {"aten.full.default", "prims.iota.default"})
      ways[name] = Way::creation;
    for (const std::string_view name :
         {"aten.sum.dim_IntList", "aten.amax.default", "aten.amin.default", "aten.any.dims",
          "aten.all.dims", "aten.prod.dim_int", "aten.argmax.default", "aten.argmin.default"})
      ways[name] = Way::reduction;
    for (const std::string_view name : {"aten.cumsum.default", "aten.cumprod.default"})
      ways[name] = Way::scan;
    for (const std::string_view name :
         {"aten.view.default", "aten.permute.default", "aten.expand.default",
          "aten.unsqueeze.default", "aten.squeeze.dims", "aten.slice.Tensor", "aten.select.int",
          "aten.mm.default", "aten.bmm.default", "aten.addmm.default", "aten.index.Tensor",
          "aten.embedding.default", "aten.cat.default"})
      ways[name] = Way::other;
    return ways;
  }();
  return all;
}

class Batcher {
public:
  Batcher(GraphBuilder &builder, const Graph &graph, const std::vector<Expr> &batch)
      : builder_(builder), graph_(graph), batch_(batch), values_(graph.nodes.size()) {}

  std::vector<BatchedValue> run(std::vector<BatchedValue> inputs) {
    for (NodeId id = 0; id < graph_.nodes.size(); ++id) {
      const Node &node = graph_.node(id);
      if (node.kind == NodeKind::placeholder)
        values_[id] = std::move(inputs.at(id));
      else if (node.kind == NodeKind::output)
        break;
      else
        values_[id] = computed(node);
    }
    std::vector<BatchedValue> results;
    for (const graph::OutputSpec &output : graph_.outputs)
      results.push_back(values_[output.value.node()->id]);
    return results;
  }

private:
  GraphBuilder &builder_;
  const Graph &graph_;
  const std::vector<Expr> &batch_;
  std::vector<BatchedValue> values_;

  size_t leading() const { return batch_.size(); }
  const TensorMeta &own(const Argument &argument) const { // of one element
    return *graph_.node(argument.node()->id).value->tensor();
  }
  size_t rank(const Argument &argument) const { return own(argument).layout.rank(); }
  const BatchedValue &value(const Argument &argument) const { return values_[argument.node()->id]; }
  int64_t moved(int64_t dim, size_t rank) const {
    return dim < 0 ? dim + static_cast<int64_t>(rank + leading())
                   : dim + static_cast<int64_t>(leading());
  }
  std::vector<Expr> batch_sizes(const Argument &physical) const {
    const std::vector<Expr> sizes = builder_.meta(physical).layout.sizes;
    return {sizes.begin(), sizes.begin() + static_cast<ptrdiff_t>(leading())};
  }
  /// Sizes of a batched result whose elements are of `sizes`.
  Argument behind_batch(const Argument &physical, const std::vector<Expr> &sizes) const {
    std::vector<Expr> all = batch_sizes(physical);
    all.insert(all.end(), sizes.begin(), sizes.end());
    return sizes_argument(all);
  }

  /// A tensor argument whose elements are seen with `rank` dimensions, as broadcasting does.
  Argument aligned(const Argument &argument, size_t wanted) {
    Argument result = value(argument).value;
    if (value(argument).is_batched)
      for (size_t i = rank(argument); i < wanted; ++i)
        result = builder_.call("aten.unsqueeze.default", {result, static_cast<int64_t>(leading())});
    return result;
  }

  Argument unbatched(const Argument &argument) const {
    return map_references(argument, [&](NodeRef reference) { return values_[reference.id].value; });
  }

  /// Whether a reference of these arguments is to a batched value.
  bool any_batched(const Node &node) const {
    bool any = false;
    const auto visit = [&](NodeRef reference) { any = any || values_[reference.id].is_batched; };
    for (const Argument &argument : node.args)
      graph::for_each_node(argument, visit);
    for (const auto &keyword : node.kwargs)
      graph::for_each_node(keyword.second, visit);
    return any;
  }

  BatchedValue computed(const Node &node) {
    if (!any_batched(node)) {
      Arguments args;
      Keywords kwargs;
      for (const Argument &argument : node.args)
        args.push_back(unbatched(argument));
      for (const auto &[name, argument] : node.kwargs)
        kwargs.emplace_back(name, unbatched(argument));
      return {builder_.call(node.target, std::move(args), std::move(kwargs)), false};
    }
    switch (ways().at(node.target)) {
    case Way::elementwise:
      return {elementwise(node), true};
    case Way::creation:
      break;
    case Way::reduction:
      return {reduction(node), true};
    case Way::scan:
      return {scan(node), true};
    case Way::other:
      return {other(node), true};
    }
    throw support::InternalError("ops", node.name, "a creation takes a tensor");
  }

  Argument elementwise(const Node &node) {
    const TensorMeta &result = *node.value->tensor();
    if (copies_elements(node.target))
      return value(node.args[0]).value;
    Arguments args;
    bool differ = false; // dtype promotion looks at ranks
    size_t tensors = 0;
    for (const Argument &argument : node.args) {
      if (!argument.node()) {
        args.push_back(argument);
        continue;
      }
      ++tensors;
      differ = differ || !value(argument).is_batched || rank(argument) != result.layout.rank();
      args.push_back(aligned(argument, result.layout.rank()));
    }
    Argument computed = builder_.call(node.target, std::move(args), node.kwargs);
    return differ && tensors > 1 ? convert(builder_, computed, result.dtype) : computed;
  }

  /// The dimensions that a reduction names, moved; of a scalar none.
  Argument reduction(const Node &node) {
    const size_t dims = rank(node.args[0]);
    Argument x = value(node.args[0]).value;
    if (dims == 0)
      return convert(builder_, x, node.value->tensor()->dtype);
    Arguments args = node.args;
    args[0] = x;
    const Argument given = args.size() > 1 ? args[1] : Argument();
    if (const int64_t *dim = std::get_if<int64_t>(&given.value)) {
      args[1] = moved(*dim, dims);
      return builder_.call(node.target, std::move(args), node.kwargs);
    }
    Arguments all;
    if (given.list())
      for (const Argument &dim : *given.list())
        all.emplace_back(moved(std::get<int64_t>(dim.value), dims));
    if (all.empty())
      for (size_t i = 0; i < dims; ++i)
        all.emplace_back(static_cast<int64_t>(leading() + i));
    const bool is_list =
        node.target != "aten.argmax.default" && node.target != "aten.argmin.default";
    if (!is_list) { // over the flattened element
      args[0] =
          builder_.call("aten.reshape.default",
                        {x, behind_batch(x, {symbolic::numel(own(node.args[0]).layout.sizes)})});
      args.resize(1);
      args.emplace_back(-1);
      Argument result = builder_.call(node.target, std::move(args));
      return builder_.call("aten.reshape.default",
                           {result, behind_batch(result, node.value->tensor()->layout.sizes)});
    }
    args.resize(std::max<size_t>(args.size(), 2));
    args[1] = std::move(all);
    return builder_.call(node.target, std::move(args), node.kwargs);
  }

  Argument scan(const Node &node) {
    Arguments args = node.args;
    args[0] = value(args[0]).value;
    if (rank(node.args[0]) == 0)
      return convert(builder_, args[0], node.value->tensor()->dtype);
    args[1] = moved(std::get<int64_t>(args[1].value), rank(node.args[0]));
    return builder_.call(node.target, std::move(args), node.kwargs);
  }

  Argument other(const Node &node) {
    const std::string_view target = node.target;
    const std::vector<Expr> &sizes = node.value->tensor()->layout.sizes;
    if (target == "aten.mm.default" || target == "aten.bmm.default")
      return product(node.args[0], node.args[1]);
    if (target == "aten.addmm.default")
      return sum_and_product(node);
    if (target == "aten.index.Tensor")
      return indexed(node.args[0], *node.args[1].list());
    if (target == "aten.embedding.default")
      return indexed(node.args[0], {node.args[1]});
    if (target == "aten.cat.default")
      return joined(node);
    Arguments args = node.args;
    const size_t dims = rank(args[0]);
    args[0] = value(args[0]).value;
    if (target == "aten.view.default")
      return builder_.call("aten.reshape.default", {args[0], behind_batch(args[0], sizes)});
    if (target == "aten.expand.default")
      return builder_.call(node.target,
                           {aligned(node.args[0], sizes.size()), behind_batch(args[0], sizes)});
    if (target == "aten.permute.default" || target == "aten.squeeze.dims") {
      Arguments all;
      for (size_t i = 0; target == "aten.permute.default" && i < leading(); ++i)
        all.emplace_back(static_cast<int64_t>(i));
      for (const Argument &dim : *node.args[1].list())
        all.emplace_back(moved(std::get<int64_t>(dim.value), dims));
      return builder_.call(node.target, {args[0], std::move(all)});
    }
    const size_t counted = target == "aten.unsqueeze.default" ? dims + 1 : dims;
    const int64_t *dim = args.size() > 1 ? std::get_if<int64_t>(&args[1].value) : nullptr;
    if (args.size() < 2) // slice of the first dimension
      args.emplace_back(0);
    args[1] = moved(dim ? *dim : 0, counted);
    return builder_.call(node.target, std::move(args), node.kwargs);
  }

  Argument product(const Argument &a, const Argument &b) {
    return builder_.call("aten.matmul.default", {value(a).value, value(b).value});
  }

  Argument sum_and_product(const Node &node) {
    const auto factor = [&](std::string_view name) -> Argument {
      for (const auto &[keyword, argument] : node.kwargs)
        if (keyword == name)
          return argument;
      return 1;
    };
    const Argument scaled =
        builder_.call(kMul, {product(node.args[1], node.args[2]), factor("alpha")});
    return builder_.call(kAdd,
                         {builder_.call(kMul, {aligned(node.args[0], 2), factor("beta")}), scaled});
  }

  Argument joined(const Node &node) {
    Arguments parts;
    for (const Argument &part : *node.args[0].list())
      parts.push_back(expanded_to_batch(builder_, value(part), rank(part), batch_));
    const int64_t *dim = node.args.size() > 1 ? std::get_if<int64_t>(&node.args[1].value) : nullptr;
    return builder_.call(node.target, {std::move(parts),
                                       moved(dim ? *dim : 0, node.value->tensor()->layout.rank())});
  }

  /// 0, 1, .. along dimension `dim` of `rank`.
  Argument counting(Expr size, size_t dim, size_t rank, tensor::Device device) {
    Argument range = builder_.call("aten.arange.default", {size_argument(size)},
                                   {{"dtype", DType::i64}, {"device", device}});
    for (size_t i = dim + 1; i < rank; ++i)
      range = builder_.call("aten.unsqueeze.default", {range, -1});
    return range;
  }

  /// self[indices], the indices adjacent: those of a batch are its dimensions', too.
  Argument indexed(const Argument &self, const Arguments &indices) {
    size_t first = SIZE_MAX, index_rank = 0;
    bool by_batch = value(self).is_batched;
    for (size_t i = 0; i < indices.size(); ++i)
      if (indices[i].node()) {
        first = std::min(first, i);
        index_rank = std::max(index_rank, rank(indices[i]));
        by_batch = by_batch || value(indices[i]).is_batched;
      }
    const Argument source = value(self).value;
    Arguments all;
    if (value(self).is_batched) {
      const std::vector<Expr> sizes = batch_sizes(source);
      for (size_t dim = 0; dim < leading(); ++dim)
        all.push_back(
            counting(sizes[dim], dim, leading() + index_rank, builder_.meta(source).device));
    }
    for (const Argument &index : indices)
      all.push_back(index.node() ? aligned(index, index_rank) : index);
    Argument result = builder_.call("aten.index.Tensor", {source, std::move(all)});
    if (value(self).is_batched || first == 0)
      return result; // unbatched_operator lets no whole dimension in front of a batched tensor's
    // [before.., batch.., index.., behind..]
    const size_t dims = builder_.meta(result).layout.rank();
    std::vector<size_t> order;
    for (size_t i = 0; i < leading(); ++i)
      order.push_back(first + i);
    for (size_t i = 0; i < dims; ++i)
      if (i < first || i >= first + leading())
        order.push_back(i);
    return builder_.call("aten.permute.default", {result, ints_argument(order)});
  }
};

/// Whether the indices of one aten.index stand side by side, from the first dimension on.
bool stands_in_front(const Node &node) {
  bool ended = false;
  for (const Argument &index : *node.args.at(1).list())
    if (!index.node())
      ended = true;
    else if (ended)
      return false;
  return true;
}

} // namespace

bool is_elementwise(std::string_view target) {
  const auto found = ways().find(target);
  return found != ways().end() && found->second == Way::elementwise && target != "aten.view.dtype";
}

bool copies_elements(std::string_view target) {
  return target == "aten.clone.default" || target == "tsc.clone_strided.default";
}

std::optional<std::string> unbatched_operator(const Graph &prepared) {
  for (const Node &node : prepared.nodes) {
    if (node.kind != NodeKind::call_function)
      continue;
    const bool has_tensor = node.value && node.value->tensor();
    if (!has_tensor || ways().count(node.target) == 0 ||
        (node.target == "aten.index.Tensor" && !stands_in_front(node)))
      return node.target;
  }
  return std::nullopt;
}

bool computes_single_elements(const Graph &prepared) {
  static const std::unordered_set<std::string_view> lookups = {
      "aten.view.default",      "aten.permute.default", "aten.expand.default",
      "aten.unsqueeze.default", "aten.squeeze.dims",    "aten.slice.Tensor",
      "aten.select.int",        "aten.index.Tensor",    "aten.embedding.default"};
  return std::all_of(prepared.nodes.begin(), prepared.nodes.end(), [](const Node &node) {
    if (node.kind != NodeKind::call_function || lookups.count(node.target) != 0)
      return true;
    const auto way = ways().find(node.target);
    return way != ways().end() && (way->second == Way::elementwise || way->second == Way::creation);
  });
}

std::vector<BatchedValue> batched(GraphBuilder &builder, const Graph &prepared,
                                  std::vector<BatchedValue> inputs,
                                  const std::vector<Expr> &batch) {
  return Batcher(builder, prepared, batch).run(std::move(inputs));
}

Argument expanded_to_batch(GraphBuilder &builder, const BatchedValue &value, size_t rank,
                           const std::vector<Expr> &batch) {
  const std::vector<Expr> sizes = builder.meta(value.value).layout.sizes;
  std::vector<Expr> all = batch;
  all.insert(all.end(), sizes.end() - static_cast<ptrdiff_t>(rank), sizes.end());
  return builder.call("aten.expand.default", {value.value, sizes_argument(all)});
}

} // namespace tsc::ops
