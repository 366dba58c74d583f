// flex_attention: attention whose scores go through a function of the caller's, and whose mask is
// one. The tensors of a block mask say which blocks of scores a kernel may skip: the mask function
// decides the same for every element, and is what is computed here.
#include "ops/families/batched_graph.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <limits>
#include <numbers>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

struct Operands {
  TensorMeta query, key, value;
  Expr groups = 1; // query heads that share a key's
};

Operands operands_of(const Call &call) {
  Operands of{call.tensor("query"), call.tensor("key"), call.tensor("value")};
  const Sizes &q = of.query.layout.sizes, &k = of.key.layout.sizes, &v = of.value.layout.sizes;
  const auto refuse = [&] {
    call.fail("TSC-O128",
              call.node().target + ": query " + print_sizes(q) + ", key " + print_sizes(k) +
                  ", value " + print_sizes(v),
              "pass [batch, heads, rows, depth], keys and values of as many rows");
  };
  if (q.size() != 4 || k.size() != 4 || v.size() != 4)
    refuse();
  const bool fits = taken_equal(call, q[3], k[3]) && taken_equal(call, k[2], v[2]) &&
                    taken_equal(call, k[1], v[1]) && taken_equal(call, k[0], v[0]) &&
                    (k[0].is_integer(1) || taken_equal(call, q[0], k[0]));
  if (!fits)
    refuse();
  if (!same_size(q[1], k[1], call.ranges())) {
    if (!q[1].is_integer() || !k[1].is_integer() || k[1].is_integer(0) ||
        q[1].value() % k[1].value() != 0)
      refuse();
    of.groups = Expr(q[1].value() / k[1].value());
  }
  return of;
}

/// Keys or values [batch, heads, rows, depth], each head as often as queries share it.
Argument shared_heads(GraphBuilder &builder, const Argument &x, Expr groups) {
  if (groups.is_integer(1))
    return x;
  const Sizes sizes = builder.meta(x).layout.sizes;
  const Argument apart = builder.call("aten.unsqueeze.default", {x, 2});
  const Argument repeated =
      builder.call("aten.expand.default",
                   {apart, sizes_argument({sizes[0], sizes[1], groups, sizes[2], sizes[3]})});
  return builder.call(
      "aten.reshape.default",
      {repeated, sizes_argument({sizes[0], sizes[1] * groups, sizes[2], sizes[3]})});
}

/// A function of scores or positions, traced over single elements.
class Function {
public:
  Function(GraphBuilder &builder, const Call &call, const Argument &graph, std::string_view buffers,
           std::optional<DType> score)
      : builder_(builder) {
    Graph body = subgraph_of(call, graph);
    for (Node &node : body.nodes) // recorded for scores of the query's dtype
      if (node.kind == graph::NodeKind::call_function)
        node.value.reset();
    std::vector<std::optional<TensorMeta>> metas;
    if (score) {
      TensorMeta meta;
      meta.dtype = *score;
      meta.device = call.tensor("query").device;
      metas.emplace_back(meta);
    }
    metas.resize(metas.size() + 4); // batch, head, row, column
    if (const Arguments *list = call[buffers].list())
      for (const Argument &each : *list) {
        others_.push_back({each, false});
        metas.push_back(each.node() ? std::optional(builder.meta(each)) : std::nullopt);
      }
    body_ = prepared_body(call, body, metas);
    if (body_.outputs.size() != 1)
      call.fail("TSC-O125", call.node().target + ": a function yields more than one tensor",
                "yield one");
    if (const std::optional<std::string> target = unbatched_operator(body_))
      call.refuse("TSC-O125", call.node().target + ": a function of the scores calls " + *target,
                  "compute with elements, and look them up by index");
  }

  /// Whether it yields its first argument.
  bool is_identity() const { return body_.outputs[0].value.node()->id == 0; }
  /// Whether it is `row >= column`.
  bool is_causal() const {
    const Node &last = yielded();
    return last.target == "aten.ge.Tensor" && last.args[0] == Argument(graph::NodeRef{2}) &&
           last.args[1] == Argument(graph::NodeRef{3});
  }
  /// Whether it is always true.
  bool is_true() const {
    const Node &last = yielded();
    const bool *truth = last.target == "aten.full.default" && last.args.size() > 1
                            ? std::get_if<bool>(&last.args[1].value)
                            : nullptr;
    const int64_t *number = last.target == "aten.full.default" && last.args.size() > 1
                                ? std::get_if<int64_t>(&last.args[1].value)
                                : nullptr;
    return last.value->tensor()->layout.rank() == 0 && ((truth && *truth) || (number && *number));
  }

  BatchedValue operator()(std::optional<Argument> scores, const Sizes &batch) const {
    std::vector<BatchedValue> inputs;
    if (scores)
      inputs.push_back({*scores, true});
    for (size_t dim = 0; dim < batch.size(); ++dim) {
      const TensorMeta place = *body_.nodes[inputs.size()].value->tensor();
      Argument numbers = builder_.call("aten.arange.default", {size_argument(batch[dim])},
                                       {{"dtype", place.dtype}, {"device", place.device}});
      Sizes sizes(batch.size(), Expr(1));
      sizes[dim] = batch[dim];
      inputs.push_back(
          {builder_.call("aten.reshape.default", {numbers, sizes_argument(sizes)}), true});
    }
    inputs.insert(inputs.end(), others_.begin(), others_.end());
    return batched(builder_, body_, inputs, batch).front();
  }

private:
  GraphBuilder &builder_;
  Graph body_;
  std::vector<BatchedValue> others_;

  const Node &yielded() const { return body_.node(body_.outputs[0].value.node()->id); }
};

/// `x` in the order of the query's dimensions.
Argument in_order_of(GraphBuilder &builder, const Argument &x, const TensorMeta &query) {
  const Sizes sizes = builder.meta(x).layout.sizes;
  Sizes strides(sizes.size(), Expr(1));
  Expr next = 1;
  for (const size_t dim : iteration_order(sizes, {query.layout.strides}, builder.ranges())) {
    strides[dim] = next;
    next *= sizes[dim];
  }
  if (builder.meta(x).layout.strides == strides)
    return x;
  return builder.call("tsc.clone_strided.default", {x, sizes_argument(strides)});
}

Argument base_2(GraphBuilder &builder, const Argument &x) {
  return builder.call(kDiv, {x, std::numbers::ln2});
}

/// (attention, logarithm to base 2 of the sums, largest scores in that base).
Argument flex_attention(GraphBuilder &builder, const Call &call) {
  const Operands of = operands_of(call);
  const DType wide = of.query.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Arguments *block_mask = call["block_mask"].list();
  if (!block_mask || block_mask->empty())
    call.fail("TSC-O125", call.node().target + ": the block mask has no function",
              "pass what create_block_mask gives");
  const Function score(builder, call, call["score_mod"], "score_mod_other_buffers", wide);
  const Function mask(builder, call, block_mask->back(), "mask_mod_other_buffers", std::nullopt);
  const Sizes &q = of.query.layout.sizes;
  const Sizes batch = {q[0], q[1], q[2], of.key.layout.sizes[2]};

  const auto wide_of = [&](std::string_view name) {
    return shared_heads(builder, convert(builder, call[name], wide), of.groups);
  };
  const Argument keys =
      builder.call("aten.permute.default", {wide_of("key"), Arguments{0, 1, 3, 2}});
  Argument scores =
      builder.call("aten.matmul.default", {convert(builder, call["query"], wide), keys});
  scores = builder.call(kMul, {scores, call["scale"]});
  scores = convert(builder, expanded_to_batch(builder, score(scores, batch), 0, batch), wide);
  if (!mask.is_true()) {
    const Argument shown = mask(std::nullopt, batch).value;
    scores = builder.call(kWhere, {shown, scores, -std::numeric_limits<double>::infinity()});
  }
  const Argument sums = builder.call("aten.logsumexp.default", {scores, Arguments{-1}, false});
  const Argument largest = builder.call("aten.amax.default", {scores, Arguments{-1}, false});

  Argument result;
  const bool is_plain = score.is_identity() && (mask.is_true() || mask.is_causal()) &&
                        same_size(q[0], of.key.layout.sizes[0], call.ranges());
  if (is_plain) { // the attention that one kernel may compute
    result =
        builder.call("aten.scaled_dot_product_attention.default",
                     {call["query"], call["key"], call["value"], Argument(), 0.0, !mask.is_true()},
                     {{"scale", call["scale"]}, {"enable_gqa", !of.groups.is_integer(1)}});
  } else {
    const Argument weights = builder.call("aten._safe_softmax.default", {scores, -1});
    result = builder.call("aten.matmul.default", {weights, wide_of("value")});
  }
  return Arguments{in_order_of(builder, convert(builder, result, of.query.dtype), of.query),
                   base_2(builder, sums), base_2(builder, largest)};
}

Value flex_attention_value(const Call &call) {
  const Operands of = operands_of(call);
  const Sizes &q = of.query.layout.sizes;
  const DType wide = of.query.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Value rows = contiguous_value(wide, {q[0], q[1], q[2]}, of.query.device);
  const Value result = contiguous_value(
      of.query.dtype, {q[0], q[1], q[2], of.value.layout.sizes[3]}, of.query.device);
  const std::optional<Value> &recorded = call.node().value;
  if (recorded && recorded->list() && recorded->list()->size() == 2) // before 2.9
    return Value{Value::List{result, rows}};
  return Value{Value::List{result, rows, rows}};
}

} // namespace

void add_flex_attention(Table &table) {
  table
      .add(
          "higher_order::flex_attention(Tensor query, Tensor key, Tensor value, Any score_mod, Any "
          "block_mask, float scale, Any kernel_options, Any score_mod_other_buffers=[], Any "
          "mask_mod_other_buffers=[]) -> Any")
      .shape(flex_attention_value)
      .decompose(flex_attention);
}

} // namespace tsc::ops
