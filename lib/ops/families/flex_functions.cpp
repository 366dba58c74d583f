#include "ops/families/flex_functions.h"

#include "ops/families/dead_nodes.h"
#include "ops/families/flex_attention.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"

#include <limits>

namespace tsc::ops::flex {

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

Function::Function(GraphBuilder &builder, const Call &call, Graph body, Signature signature,
                   std::string_view buffers, DType wide)
    : builder_(builder), signature_(signature) {
  for (Node &node : body.nodes) // recorded for scores of the query's dtype
    if (node.kind == graph::NodeKind::call_function)
      node.value.reset();
  TensorMeta score;
  score.dtype = wide;
  score.device = call.tensor("query").device;
  std::vector<std::optional<TensorMeta>> metas(signature.before, score);
  metas.resize(metas.size() + 4); // batch, head, row, column
  metas.insert(metas.end(), signature.after, score);
  if (const Arguments *list = call[buffers].list())
    for (const Argument &each : *list) {
      others_.push_back({each, false});
      metas.push_back(each.node() ? std::optional(builder.meta(each)) : std::nullopt);
    }
  body_ = remove_dead_nodes(prepared_body(call, body, metas));
  if (const std::optional<std::string> target = unbatched_operator(body_))
    call.refuse("TSC-O125", call.node().target + ": a function of the scores calls " + *target,
                "compute with elements, and look them up by index");
}

bool Function::is_causal() const {
  const Node &last = yielded();
  return last.target == "aten.ge.Tensor" && last.args[0] == Argument(graph::NodeRef{2}) &&
         last.args[1] == Argument(graph::NodeRef{3});
}

bool Function::is_true() const {
  const Node &last = yielded();
  if (last.target != "aten.full.default" || last.args.size() < 2 ||
      last.value->tensor()->layout.rank() != 0)
    return false;
  const bool *truth = std::get_if<bool>(&last.args[1].value);
  const int64_t *number = std::get_if<int64_t>(&last.args[1].value);
  return (truth && *truth) || (number && *number != 0);
}

std::vector<BatchedValue> Function::results(const std::vector<Argument> &scores, const Sizes &batch,
                                            bool inside) const {
  std::vector<BatchedValue> inputs;
  for (size_t i = 0; i < signature_.before; ++i)
    inputs.push_back({scores[i], true});
  for (size_t dim = 0; dim < batch.size(); ++dim) {
    const TensorMeta place = *body_.nodes[inputs.size()].value->tensor();
    Sizes sizes(batch.size(), Expr(1));
    sizes[dim] = batch[dim];
    if (inside) {
      inputs.push_back(
          {builder_.call(kScoreOperand, {static_cast<int64_t>(dim + 1), sizes_argument(sizes)},
                         {{"dtype", place.dtype}, {"device", place.device}}),
           true});
      continue;
    }
    Argument numbers = builder_.call("aten.arange.default", {size_argument(batch[dim])},
                                     {{"dtype", place.dtype}, {"device", place.device}});
    inputs.push_back(
        {builder_.call("aten.reshape.default", {numbers, sizes_argument(sizes)}), true});
  }
  for (size_t i = signature_.before; i < scores.size(); ++i)
    inputs.push_back({scores[i], true});
  inputs.insert(inputs.end(), others_.begin(), others_.end());
  return batched(builder_, body_, inputs, batch);
}

Functions functions_of(GraphBuilder &builder, const Call &call, std::string_view score) {
  const Operands of = operands_of(call);
  const DType wide = of.query.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Arguments *block_mask = call["block_mask"].list();
  if (!block_mask || block_mask->empty())
    call.fail("TSC-O125", call.node().target + ": the block mask has no function",
              "pass what create_block_mask gives");
  const Sizes &q = of.query.layout.sizes;
  return {
      Function(builder, call, subgraph_of(call, score), {1, 0}, "score_mod_other_buffers", wide),
      Function(builder, call, subgraph_of(call, block_mask->back()), {}, "mask_mod_other_buffers",
               wide),
      {q[0], q[1], q[2], of.key.layout.sizes[2]},
      wide};
}

Argument wide_product(GraphBuilder &builder, const Argument &a, const Argument &b, DType wide) {
  const Sizes left = builder.meta(a).layout.sizes, right = builder.meta(b).layout.sizes;
  if (!tensor::is_reduced_float(builder.meta(a).dtype) ||
      builder.meta(b).dtype != builder.meta(a).dtype)
    return builder.call("aten.matmul.default",
                        {convert(builder, a, wide), convert(builder, b, wide)});
  const auto merged = [&](const Argument &x, const Sizes &sizes) {
    return builder.call("aten.reshape.default",
                        {x, sizes_argument({left[0] * left[1], sizes[2], sizes[3]})});
  };
  const Argument product =
      builder.call("aten.bmm.dtype", {merged(a, left), merged(b, right), DType::f32});
  return builder.call("aten.reshape.default",
                      {product, sizes_argument({left[0], left[1], left[2], right[3]})});
}

namespace {

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

} // namespace

Argument turned(GraphBuilder &builder, const Argument &x) {
  return builder.call("aten.permute.default", {x, Arguments{0, 1, 3, 2}});
}

Argument for_every_head(GraphBuilder &builder, const Argument &x, const Operands &of) {
  Argument result = shared_heads(builder, x, of.groups);
  Sizes sizes = builder.meta(result).layout.sizes;
  if (same_size(sizes[0], of.query.layout.sizes[0], builder.ranges()))
    return result;
  sizes[0] = of.query.layout.sizes[0];
  return builder.call("aten.expand.default", {result, sizes_argument(sizes)});
}

Scores scores_of(GraphBuilder &builder, const Call &call, const Functions &functions) {
  const Operands of = operands_of(call);
  const Argument keys = turned(builder, for_every_head(builder, call["key"], of));
  Scores scores;
  scores.before = builder.call(
      kMul, {wide_product(builder, call["query"], keys, functions.wide), call["scale"]});
  const BatchedValue changed = functions.score({scores.before}, functions.batch);
  scores.after =
      convert(builder, expanded_to_batch(builder, changed, 0, functions.batch), functions.wide);
  if (!functions.mask.is_true()) {
    const Argument shown = functions.mask({}, functions.batch).value;
    scores.after =
        builder.call(kWhere, {shown, scores.after, -std::numeric_limits<double>::infinity()});
  }
  return scores;
}

Argument in_order_of(GraphBuilder &builder, const Argument &x, const TensorMeta &like) {
  const Sizes sizes = builder.meta(x).layout.sizes;
  Sizes strides(sizes.size(), Expr(1));
  Expr next = 1;
  for (const size_t dim : iteration_order(sizes, {like.layout.strides}, builder.ranges())) {
    strides[dim] = next;
    next *= sizes[dim];
  }
  if (builder.meta(x).layout.strides == strides)
    return x;
  return builder.call("tsc.clone_strided.default", {x, sizes_argument(strides)});
}

Value value_in_order_of(const TensorMeta &like, const Sizes &sizes) {
  return tensor_value(like.dtype, sizes,
                      tensor::strides_in_order(sizes, tensor::stride_order(like.layout.strides)),
                      like.device);
}

} // namespace tsc::ops::flex
