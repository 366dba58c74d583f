// flex_attention: attention whose scores go through a function of the caller's, and whose mask is
// one. The tensors of a block mask say which blocks of scores a kernel may skip: the mask function
// decides the same for every element, and is what is computed here.
#include "ops/families/flex_attention.h"

#include "ops/families/batched_graph.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

constexpr std::string_view kOutputOnly = "tsc.flex_attention.output_only",
                           kFused = "tsc.fused_flex_attention.default",
                           kFusedWithSums = "tsc.fused_flex_attention.with_sums";

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

  /// Whether every element is computed from elements alone, which a kernel can do where it is.
  bool is_of_elements() const { return computes_single_elements(body_); }

  /// `inside`: as what a kernel computes where the scores are.
  BatchedValue operator()(std::optional<Argument> scores, const Sizes &batch,
                          bool inside = false) const {
    std::vector<BatchedValue> inputs;
    if (scores)
      inputs.push_back({*scores, true});
    for (size_t dim = 0; dim < batch.size(); ++dim) {
      const TensorMeta place = *body_.nodes[inputs.size()].value->tensor();
      Sizes sizes(batch.size(), Expr(1));
      sizes[dim] = batch[dim];
      if (inside) {
        inputs.push_back({builder_.call(kScoreOperand,
                                        {static_cast<int64_t>(dim + 1), sizes_argument(sizes)},
                                        {{"dtype", place.dtype}, {"device", place.device}}),
                          true});
        continue;
      }
      Argument numbers = builder_.call("aten.arange.default", {size_argument(batch[dim])},
                                       {{"dtype", place.dtype}, {"device", place.device}});
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

/// The functions of one call.
struct Functions {
  Function score, mask;
  Sizes batch; // [batch, heads, rows, columns]
  DType wide;  // of scores
};
Functions functions_of(GraphBuilder &builder, const Call &call) {
  const Operands of = operands_of(call);
  const DType wide = of.query.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Arguments *block_mask = call["block_mask"].list();
  if (!block_mask || block_mask->empty())
    call.fail("TSC-O125", call.node().target + ": the block mask has no function",
              "pass what create_block_mask gives");
  const Sizes &q = of.query.layout.sizes;
  return {Function(builder, call, call["score_mod"], "score_mod_other_buffers", wide),
          Function(builder, call, block_mask->back(), "mask_mod_other_buffers", std::nullopt),
          {q[0], q[1], q[2], of.key.layout.sizes[2]},
          wide};
}

/// `a` [batch, heads, rows, n] times `b` [batch, heads, n, columns], each element of f32 or wider.
Argument wide_product(GraphBuilder &builder, const Argument &a, const Argument &b, DType wide) {
  const Sizes left = builder.meta(a).layout.sizes, right = builder.meta(b).layout.sizes;
  if (!tensor::is_reduced_float(builder.meta(a).dtype))
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

/// Keys or values for every batch and head of the queries.
Argument for_every_head(GraphBuilder &builder, const Argument &x, const Operands &of) {
  Argument result = shared_heads(builder, x, of.groups);
  Sizes sizes = builder.meta(result).layout.sizes;
  if (same_size(sizes[0], of.query.layout.sizes[0], builder.ranges()))
    return result;
  sizes[0] = of.query.layout.sizes[0];
  return builder.call("aten.expand.default", {result, sizes_argument(sizes)});
}

struct Scores {
  Argument before, after; // the functions
};
Scores scores_of(GraphBuilder &builder, const Call &call, const Functions &functions) {
  const Operands of = operands_of(call);
  const Argument keys =
      builder.call("aten.permute.default",
                   {for_every_head(builder, call["key"], of), Arguments{0, 1, 3, 2}});
  Scores scores;
  scores.before = builder.call(
      kMul, {wide_product(builder, call["query"], keys, functions.wide), call["scale"]});
  const BatchedValue changed = functions.score(scores.before, functions.batch);
  scores.after =
      convert(builder, expanded_to_batch(builder, changed, 0, functions.batch), functions.wide);
  if (!functions.mask.is_true()) {
    const Argument shown = functions.mask(std::nullopt, functions.batch).value;
    scores.after =
        builder.call(kWhere, {shown, scores.after, -std::numeric_limits<double>::infinity()});
  }
  return scores;
}

bool is_plain(const Call &call, const Functions &functions) {
  return functions.score.is_identity() &&
         (functions.mask.is_true() || functions.mask.is_causal()) &&
         same_size(functions.batch[0], call.tensor("key").layout.sizes[0], call.ranges());
}

/// Whether one kernel can compute the call, its functions at the scores.
bool fits_one_kernel(const GraphBuilder &builder, const Call &call, const Functions &functions) {
  constexpr int64_t kFewRows = 16;
  constexpr int64_t kMostBlocks = 65535; // along the second and third axis of a grid
  const Operands of = operands_of(call);
  const Sizes &q = of.query.layout.sizes;
  const bool dtypes = tensor::is_reduced_float(of.query.dtype) && of.key.dtype == of.query.dtype &&
                      of.value.dtype == of.query.dtype;
  const bool depths = q[3].is_integer() && q[3].value() % 8 == 0 && q[3].value() >= 8 &&
                      q[3].value() <= builder.facilities().attention &&
                      of.value.layout.sizes[3] == q[3];
  const bool large = !(q[2].is_integer() && q[2].value() <= kFewRows) &&
                     !symbolic::numel(q).is_integer(0) && !functions.batch[3].is_integer(0);
  const auto fits_grid = [](Expr size) { return !size.is_integer() || size.value() <= kMostBlocks; };
  return dtypes && depths && large && fits_grid(q[0]) && fits_grid(q[1]) &&
         std::isfinite(call.number("scale")) && functions.score.is_of_elements() &&
         functions.mask.is_of_elements();
}

/// Of what create_block_mask gives: sizes, or none, eight lists, rows and columns of a block, the
/// function. The lists of blocks of columns, and the block, if it gives them.
struct BlockLists {
  Arguments lists; // blocks that count in part, and those that count whole: numbers, places
  int64_t rows = 0, columns = 0;
};
std::optional<BlockLists> block_lists(const Call &call, const Functions &functions) {
  constexpr size_t kLists = 8, kOfColumns = 4;
  const Arguments &mask = *call["block_mask"].list();
  if (functions.mask.is_true() || mask.size() < kLists + 3)
    return std::nullopt;
  BlockLists result;
  const auto *rows = std::get_if<int64_t>(&mask[mask.size() - 3].value),
             *columns = std::get_if<int64_t>(&mask[mask.size() - 2].value);
  if (!rows || !columns || *rows <= 0 || *columns <= 0)
    return std::nullopt;
  result.rows = *rows;
  result.columns = *columns;
  const auto blocks = [&](size_t dimension, int64_t size) {
    return symbolic::simplify(symbolic::ceil_div(functions.batch[dimension], Expr(size)),
                              call.ranges());
  };
  for (size_t i = 0; i < kOfColumns; ++i) {
    const Argument &list = mask[mask.size() - 3 - kLists + i];
    if (!list.node() || !call.graph().node(list.node()->id).value)
      return std::nullopt;
    const TensorMeta *meta = call.graph().node(list.node()->id).value->tensor();
    if (!meta || meta->dtype != DType::i32 || meta->layout.rank() != 3 + i % 2)
      return std::nullopt;
    const Sizes &sizes = meta->layout.sizes;
    for (size_t k = 0; k < 2; ++k)
      if (!sizes[k].is_integer(1) && !same_size(sizes[k], functions.batch[k], call.ranges()))
        return std::nullopt;
    if (!same_size(sizes[2], blocks(2, *rows), call.ranges()) ||
        (i % 2 == 1 && !same_size(sizes[3], blocks(3, *columns), call.ranges())))
      return std::nullopt;
    result.lists.push_back(list);
  }
  return result;
}

Argument fused(GraphBuilder &builder, const Call &call, const Functions &functions) {
  const Operands of = operands_of(call);
  const auto every_batch = [&](std::string_view name) {
    Sizes sizes = call.tensor(name).layout.sizes;
    if (same_size(sizes[0], functions.batch[0], call.ranges()))
      return call[name];
    sizes[0] = functions.batch[0];
    return builder.call("aten.expand.default", {call[name], sizes_argument(sizes)});
  };
  const Argument before =
      builder.call(kScoreOperand, {0, sizes_argument(functions.batch)},
                   {{"dtype", functions.wide}, {"device", of.query.device}});
  const Argument after = convert(
      builder, functions.score(before, functions.batch, true).value, functions.wide);
  const Argument seen = functions.mask.is_true()
                            ? Argument(graph::None{})
                            : functions.mask(std::nullopt, functions.batch, true).value;
  const std::optional<BlockLists> lists = block_lists(call, functions);
  const bool with_sums = call.node().target != kOutputOnly;
  Argument result = builder.call(
      with_sums ? kFusedWithSums : kFused,
      {call["query"], every_batch("key"), every_batch("value"), after, seen,
       lists ? lists->lists : Arguments{},
       Arguments{lists ? lists->rows : 0, lists ? lists->columns : 0}, call["scale"]});
  if (!with_sums)
    return Arguments{result, graph::None{}};
  return Arguments{builder.item(result, 0), builder.item(result, 1)};
}

/// (attention, logarithm to base 2 of the sums, largest scores in that base).
Argument flex_attention(GraphBuilder &builder, const Call &call) {
  const Operands of = operands_of(call);
  const Functions functions = functions_of(builder, call);
  if (builder.facilities().attention > 0 && fits_one_kernel(builder, call, functions)) {
    const Argument results = fused(builder, call, functions);
    const Argument &sums = (*results.list())[1];
    // What nobody takes is computed by nobody.
    const Argument largest = builder.call(
        "aten.amax.default", {scores_of(builder, call, functions).after, Arguments{-1}, false});
    return Arguments{(*results.list())[0], sums.is_none() ? sums : base_2(builder, sums),
                     base_2(builder, largest)};
  }
  const Argument scores = scores_of(builder, call, functions).after;
  const Argument sums = builder.call("aten.logsumexp.default", {scores, Arguments{-1}, false});
  const Argument largest = builder.call("aten.amax.default", {scores, Arguments{-1}, false});
  const Argument weights = builder.call("aten._safe_softmax.default", {scores, -1});
  const Argument result = wide_product(builder, convert(builder, weights, of.query.dtype),
                                       for_every_head(builder, call["value"], of), functions.wide);
  return Arguments{in_order_of(builder, convert(builder, result, of.query.dtype), of.query),
                   base_2(builder, sums), base_2(builder, largest)};
}

/// What waits: scaled dot product attention as such, which more kernels compute; else the call.
Argument waiting(GraphBuilder &builder, const Call &call) {
  const Operands of = operands_of(call);
  const Functions functions = functions_of(builder, call);
  const Argument whole =
      builder.call(kFlexAttention,
                   {call["query"], call["key"], call["value"], call["score_mod"],
                    call["block_mask"], call["scale"], call["kernel_options"],
                    call["score_mod_other_buffers"], call["mask_mod_other_buffers"]});
  const auto item = [&](int64_t i) { return builder.item(whole, i); };
  if (!is_plain(call, functions))
    return Arguments{item(0), item(1), item(2)};
  const Argument result =
      builder.call("aten.scaled_dot_product_attention.default",
                   {call["query"], call["key"], call["value"], Argument(), 0.0,
                    !functions.mask.is_true()},
                   {{"scale", call["scale"]}, {"enable_gqa", !of.groups.is_integer(1)}});
  return Arguments{result, item(1), item(2)};
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

/// In the order of the query's dimensions, and the sums [batch, heads, rows].
Value fused_value(const Call &call) {
  const TensorMeta &query = call.tensor("query");
  const Sizes &q = query.layout.sizes;
  const Value output = tensor_value(
      query.dtype, q, tensor::strides_in_order(q, tensor::stride_order(query.layout.strides)),
      query.device);
  return Value{
      Value::List{output, contiguous_value(DType::f32, {q[0], q[1], q[2]}, query.device)}};
}

} // namespace

bool is_fused_flex_attention(std::string_view target) {
  return target == kFused || target == kFusedWithSums;
}

void mark_flex_attention(Graph &graph) {
  std::vector<bool> taken(graph.nodes.size(), false);
  const std::vector<uint32_t> users = graph::count_users(graph);
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node &node = graph.node(id);
    const graph::NodeRef *of =
        node.target == "operator.getitem" && !node.args.empty() ? node.args[0].node() : nullptr;
    if (of && users[id] > 0 && node.args.at(1) == Argument(int64_t{1}))
      taken[of->id] = true;
  }
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id)
    if (graph.node(id).target == kFlexAttention && !taken[id])
      graph.nodes[id].target = kOutputOnly;
}

void add_flex_attention(Table &table) {
  const std::string parameters =
      "(Tensor query, Tensor key, Tensor value, Any score_mod, Any block_mask, float scale, Any "
      "kernel_options, Any score_mod_other_buffers=[], Any mask_mod_other_buffers=[]) -> Any";
  table.add(keep_text("higher_order::flex_attention" + parameters))
      .shape(flex_attention_value)
      .decompose(waiting);
  for (const char *name : {"tsc::flex_attention", "tsc::flex_attention.output_only"})
    table.add(keep_text(name + parameters)).shape(flex_attention_value).decompose(flex_attention);
  table
      .add("tsc::score_operand(int number, SymInt[] size, *, ScalarType dtype, Device? "
           "device=None) -> Tensor")
      .shape([](const Call &call) {
        return contiguous_value(*call.dtype("dtype"), call.sizes("size"),
                                device_argument(call, {}));
      })
      .lowers("score_operand");
  // `score` and `seen` are of kScoreOperand's; `lists`: none or four (ir::ScoreFunctions).
  const std::string fused = "(Tensor query, Tensor key, Tensor value, Tensor score, Tensor? seen, "
                            "Tensor[] lists, int[] block, float scale) -> ";
  table.add(keep_text("tsc::fused_flex_attention" + fused + "Tensor"))
      .shape([](const Call &call) { return fused_value(call).list()->front(); })
      .lowers("fused_flex_attention");
  table
      .add(keep_text("tsc::fused_flex_attention.with_sums" + fused +
                     "(Tensor output, Tensor sums)"))
      .shape(fused_value)
      .lowers("fused_flex_attention");
}

} // namespace tsc::ops
