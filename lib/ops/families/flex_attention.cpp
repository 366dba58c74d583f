// flex_attention: attention whose scores go through a function of the caller's, and whose mask is
// one. The tensors of a block mask say which blocks of scores a kernel may skip: the mask function
// decides the same for every element, and is what is computed here.
#include "ops/families/flex_attention.h"

#include "ops/families/flex_functions.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <cmath>
#include <numbers>

namespace tsc::ops {
namespace {

using namespace flex;

constexpr std::string_view kOutputOnly = "tsc.flex_attention.output_only",
                           kFusedWithSums = "tsc.fused_flex_attention.with_sums";

Argument base_2(GraphBuilder &builder, const Argument &x) {
  return builder.call(kDiv, {x, std::numbers::ln2});
}

bool is_plain(const Call &call, const Functions &functions) {
  return functions.score.is_identity() &&
         (functions.mask.is_true() || functions.mask.is_causal()) &&
         same_size(functions.batch[0], call.tensor("key").layout.sizes[0], call.ranges());
}

/// Whether one kernel can compute the call, its functions at the scores.
bool fits_one_kernel(const GraphBuilder &builder, const Call &call, const Functions &functions) {
  const Operands of = operands_of(call);
  const Sizes &q = of.query.layout.sizes;
  const bool dtypes = tensor::is_reduced_float(of.query.dtype) && of.key.dtype == of.query.dtype &&
                      of.value.dtype == of.query.dtype;
  const bool depths = q[3].is_integer() && q[3].value() % 8 == 0 && q[3].value() >= 8 &&
                      q[3].value() <= builder.facilities().attention &&
                      of.value.layout.sizes[3] == q[3];
  return dtypes && depths && fits_flex_kernel(q, functions.batch[3]) &&
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
  const Argument before = builder.call(kScoreOperand, {0, sizes_argument(functions.batch)},
                                       {{"dtype", functions.wide}, {"device", of.query.device}});
  const Argument after =
      convert(builder, functions.score({before}, functions.batch, true).value, functions.wide);
  const Argument seen = functions.mask.is_true() ? Argument(graph::None{})
                                                 : functions.mask({}, functions.batch, true).value;
  const std::optional<BlockLists> lists = block_lists(call, functions);
  const bool with_sums = call.node().target != kOutputOnly;
  Argument result =
      builder.call(with_sums ? kFusedWithSums : kFusedFlexAttention,
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
  const Functions functions = functions_of(builder, call, "score_mod");
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
  const Functions functions = functions_of(builder, call, "score_mod");
  const Argument whole = builder.call(
      kFlexAttention, {call["query"], call["key"], call["value"], call["score_mod"],
                       call["block_mask"], call["scale"], call["kernel_options"],
                       call["score_mod_other_buffers"], call["mask_mod_other_buffers"]});
  const auto item = [&](int64_t i) { return builder.item(whole, i); };
  if (!is_plain(call, functions))
    return Arguments{item(0), item(1), item(2)};
  const Argument result = builder.call(
      "aten.scaled_dot_product_attention.default",
      {call["query"], call["key"], call["value"], Argument(), 0.0, !functions.mask.is_true()},
      {{"scale", call["scale"]}, {"enable_gqa", !of.groups.is_integer(1)}});
  return Arguments{result, item(1), item(2)};
}

Value flex_attention_value(const Call &call) {
  const Operands of = operands_of(call);
  const Sizes &q = of.query.layout.sizes;
  const DType wide = of.query.dtype == DType::f64 ? DType::f64 : DType::f32;
  const Value rows = contiguous_value(wide, {q[0], q[1], q[2]}, of.query.device);
  const Value result = value_in_order_of(of.query, {q[0], q[1], q[2], of.value.layout.sizes[3]});
  const std::optional<Value> &recorded = call.node().value;
  if (recorded && recorded->list() && recorded->list()->size() == 2) // before 2.9
    return Value{Value::List{result, rows}};
  return Value{Value::List{result, rows, rows}};
}

/// In the order of the query's dimensions, if rows are whole there (a query that repeats, or that
/// lies the other way round, has none), and the sums [batch, heads, rows].
Value fused_value(const Call &call) {
  const TensorMeta &query = call.tensor("query");
  const Sizes &q = query.layout.sizes;
  Value output = value_in_order_of(query, q);
  if (!output.tensor()->layout.strides.back().is_integer(1))
    output = contiguous_value(query.dtype, q, query.device);
  return Value{Value::List{output, contiguous_value(DType::f32, {q[0], q[1], q[2]}, query.device)}};
}

} // namespace

bool fits_flex_kernel(const Sizes &query, Expr keys) {
  constexpr int64_t kFewRows = 16;
  constexpr int64_t kMostBlocks = 65535; // along the second and third axis of a grid
  const auto fits_grid = [](Expr size) {
    return !size.is_integer() || size.value() <= kMostBlocks;
  };
  return !(query[2].is_integer() && query[2].value() <= kFewRows) &&
         !symbolic::numel(query).is_integer(0) && !keys.is_integer(0) && fits_grid(query[0]) &&
         fits_grid(query[1]);
}

bool is_fused_flex_attention(std::string_view target) {
  return target == kFusedFlexAttention || target == kFusedWithSums;
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
      .add(
          keep_text("tsc::fused_flex_attention.with_sums" + fused + "(Tensor output, Tensor sums)"))
      .shape(fused_value)
      .lowers("fused_flex_attention");
}

} // namespace tsc::ops
