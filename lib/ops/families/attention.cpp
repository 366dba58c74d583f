// Scaled dot product attention. Every form becomes one node, tsc.attention, which the pass
// decompose_attention turns into matrix products and a softmax in f32.
#include "ops/families/attention.h"

#include "ops/families/attention_dropout.h"
#include "ops/families/draws.h"
#include "ops/families/likely_size.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"
#include "templates/attention/tc_attention_geometry.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tsc::ops {
namespace {

using Sizes = std::vector<Expr>;

constexpr std::string_view kAttention = "tsc.attention.default",
                           kOutputOnly = "tsc.attention.output_only",
                           kWithSums = "tsc.attention.with_sums",
                           kInParts = "tsc.attention.in_parts",
                           kFused = "tsc.fused_attention.default",
                           kFusedWithSums = "tsc.fused_attention.with_sums";

/// The shapes of one attention: query [batch.., heads, rows, depth], key and value [batch..,
/// key_heads, columns, ..]. With grouped queries (heads a multiple of key_heads) the queries of a
/// group are rows of one product.
struct Shapes {
  Sizes batch;     // broadcast, heads included
  Sizes key_batch; // of key and value after broadcasting
  Expr rows, columns, depth, value_depth;
  Expr group = Expr(1);
};

Sizes without_matrix(const Sizes &sizes) { return Sizes(sizes.begin(), sizes.end() - 2); }

Shapes shapes_of(const Call &call) {
  const Sizes &q = call.tensor("query").layout.sizes, &k = call.tensor("key").layout.sizes,
              &v = call.tensor("value").layout.sizes;
  if (q.size() < 2 || k.size() < 2 || v.size() < 2)
    call.fail("TSC-O042", call.node().target + " needs 2 or more dimensions",
              "pass [.., length, depth]");
  Shapes shapes;
  shapes.rows = q[q.size() - 2];
  shapes.columns = k[k.size() - 2];
  shapes.depth = q.back();
  shapes.value_depth = v.back();
  if (q.back() != k.back() && q.back().is_integer() && k.back().is_integer())
    call.fail("TSC-O042",
              call.node().target + ": query depth " + symbolic::print(q.back()) +
                  " is not key depth " + symbolic::print(k.back()),
              "make the last sizes equal");
  const bool grouped = call.boolean("enable_gqa") && q.size() >= 3;
  if (grouped && (k.size() < 3 || v.size() < 3))
    call.fail("TSC-O042", call.node().target + ": query heads in groups, but no key heads",
              "pass [.., heads, length, depth]");
  if (grouped && q[q.size() - 3] != k[k.size() - 3]) {
    shapes.batch = without_matrix(q);
    shapes.key_batch = without_matrix(k);
    Expr heads = shapes.batch.back(), key_heads = shapes.key_batch.back();
    if (key_heads.is_integer(0) ||
        !symbolic::simplify(symbolic::mod(heads, key_heads), call.ranges()).is_integer(0))
      call.fail("TSC-O042",
                call.node().target + ": " + symbolic::print(heads) + " query heads, " +
                    symbolic::print(key_heads) + " key heads",
                "make the query heads a multiple of the key heads");
    shapes.group = symbolic::simplify(symbolic::floor_div(heads, key_heads), call.ranges());
    return shapes;
  }
  shapes.batch = broadcast(call, {without_matrix(q), without_matrix(k), without_matrix(v)});
  shapes.key_batch = shapes.batch;
  return shapes;
}

Sizes with_matrix(Sizes batch, Expr rows, Expr columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}

/// The output's dimensions in memory order, outermost first: those of the query, as the fused
/// kernels of PyTorch leave it.
std::vector<size_t> output_order(const TensorMeta &query, size_t rank) {
  std::vector<size_t> order(rank);
  std::iota(order.begin(), order.end(), size_t{0});
  return query.layout.rank() == rank ? tensor::stride_order(query.layout.strides) : order;
}

} // namespace

Value attention_value(const Call &call) {
  Shapes shapes = shapes_of(call);
  const TensorMeta &query = call.tensor("query");
  Sizes sizes = with_matrix(shapes.batch, shapes.rows, shapes.value_depth);
  Sizes strides = tensor::strides_in_order(sizes, output_order(query, sizes.size()));
  Sizes row_sizes = shapes.batch;
  row_sizes.push_back(shapes.rows);
  Value output = tensor_value(query.dtype, sizes, strides, query.device);
  return Value{Value::List{output, contiguous_value(DType::f32, row_sizes, query.device)}};
}

namespace {

/// `x` as [batch, rows, columns] with the batch dimensions merged, after broadcasting them to
/// `batch`.
Argument merged(GraphBuilder &builder, const Argument &x, const Sizes &batch, Expr rows,
                Expr columns) {
  Sizes sizes = builder.meta(x).layout.sizes;
  Sizes full = with_matrix(batch, sizes[sizes.size() - 2], sizes.back());
  Argument expanded =
      full == sizes ? x : builder.call("aten.expand.default", {x, sizes_argument(full)});
  return builder.call("aten.reshape.default",
                      {expanded, sizes_argument({symbolic::numel(batch), rows, columns})});
}

/// The mask's contribution: -inf where a boolean mask is false, else what is added.
Argument apply_mask(GraphBuilder &builder, const Call &call, Argument scores,
                    const Shapes &shapes) {
  if (call.boolean("is_causal")) {
    tensor::Device device = call.tensor("query").device;
    auto positions = [&](Expr length) {
      return builder.call("aten.arange.start_step", {0, size_argument(length), 1},
                          {{"dtype", DType::i64}, {"device", device}});
    };
    Argument columns = positions(shapes.columns);
    Argument rows = builder.call("aten.unsqueeze.default", {positions(shapes.rows), -1});
    Argument visible = builder.call("aten.le.Tensor", {columns, rows});
    scores = builder.call(kWhere, {visible, scores, -INFINITY});
  }
  if (const TensorMeta *mask = call.optional_tensor("attn_mask")) {
    // The form without a fused kernel takes a mask that is added, whatever its dtype.
    bool added = call.node().target == "aten._scaled_dot_product_attention_math.default";
    if (mask->dtype == DType::boolean && !added)
      scores = builder.call(kWhere, {call["attn_mask"], scores, -INFINITY});
    else
      scores = builder.call(kAdd, {scores, call["attn_mask"]});
  }
  return scores;
}

/// Softmax over the last dimension; a row without any visible column gives zeros.
struct Probabilities {
  Argument values, logsumexp;
};
Probabilities probabilities(GraphBuilder &builder, const Argument &scores, bool may_hide_rows) {
  Arguments last{-1};
  if (builder.meta(scores).layout.sizes.back().is_integer(0)) { // of no columns: log(0)
    const Argument sums = builder.call("aten.sum.dim_IntList", {scores, last, false});
    return {scores, builder.call("aten.full_like.default", {sums, -INFINITY})};
  }
  Argument largest = builder.call("aten.amax.default", {scores, last, true});
  Argument base = largest, hidden;
  if (may_hide_rows) {
    hidden = builder.call("aten.eq.Tensor", {largest, -INFINITY});
    base = builder.call(kWhere, {hidden, 0.0, largest});
  }
  Argument shifted = builder.call(kSub, {scores, base});
  Argument exponentials = builder.call("aten.exp.default", {shifted});
  Argument sums = builder.call("aten.sum.dim_IntList", {exponentials, last, true});
  Probabilities result;
  Argument log_sums = builder.call("aten.log.default", {sums});
  Argument sum = builder.call(kAdd, {log_sums, base});
  result.logsumexp = builder.call("aten.squeeze.dims", {sum, last});
  if (may_hide_rows)
    sums = builder.call(kWhere, {hidden, 1.0, sums});
  result.values = builder.call(kDiv, {exponentials, sums});
  return result;
}

} // namespace

bool has_parameter(const Call &call, std::string_view name) {
  const std::vector<Parameter> &all = call.schema().parameters;
  return std::any_of(all.begin(), all.end(),
                     [&](const Parameter &parameter) { return parameter.name == name; });
}

Argument in_promised_order(GraphBuilder &builder, const Argument &output, const TensorMeta &query) {
  std::vector<size_t> order = output_order(query, builder.meta(output).layout.rank());
  if (std::is_sorted(order.begin(), order.end()))
    return output;
  std::vector<size_t> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    inverse[order[i]] = i;
  Argument ordered = builder.call("aten.permute.default", {output, ints_argument(order)});
  if (!builder.meta(ordered).layout.is_contiguous())
    ordered = builder.call("aten.clone.default", {ordered},
                           {{"memory_format", graph::MemoryFormat::contiguous}});
  return builder.call("aten.permute.default", {ordered, ints_argument(inverse)});
}

namespace {

struct Attention {
  Argument output, weights; // [batch.., rows, value_depth], [batch.., rows, columns]
  Argument logsumexp;
};

/// `scale` is a number, or a tensor of rank 0; `dropout_state` what a mask is drawn of, if
/// anything.
Attention attend(GraphBuilder &builder, const Call &call, const Argument &scale,
                 const Argument &dropout_state = graph::None{}) {
  Shapes shapes = shapes_of(call);
  const TensorMeta query_meta = call.tensor("query");
  DType dtype = query_meta.dtype;
  Expr rows = shapes.group * shapes.rows;
  Argument query = merged(builder, call["query"], shapes.batch, shapes.rows, shapes.depth);
  if (!shapes.group.is_integer(1))
    query = builder.call(
        "aten.reshape.default",
        {query, sizes_argument({symbolic::numel(shapes.key_batch), rows, shapes.depth})});
  Argument key = merged(builder, call["key"], shapes.key_batch, shapes.columns, shapes.depth);
  Argument value =
      merged(builder, call["value"], shapes.key_batch, shapes.columns, shapes.value_depth);
  Argument key_columns = builder.call("aten.permute.default", {key, Arguments{0, 2, 1}});
  Argument products = tensor::is_reduced_float(dtype) // scores are never rounded to 16 bits
                          ? builder.call("aten.bmm.dtype", {query, key_columns, DType::f32})
                          : builder.call("aten.bmm.default", {query, key_columns});
  Argument scores = builder.call(
      "aten.view.default",
      {products, sizes_argument(with_matrix(shapes.batch, shapes.rows, shapes.columns))});
  scores = widen(builder, scores);
  scores = builder.call(kMul, {scores, scale});
  scores = apply_mask(builder, call, scores, shapes);
  Probabilities softmax = probabilities(builder, scores, call.has("attn_mask"));
  Attention result;
  const double p = call.number("dropout_p");
  Argument values =
      dropout_state.node() && p != 0
          ? dropped_weights(builder, softmax.values, dropout_state, p)
          : builder.call("aten.dropout.default", {softmax.values, call["dropout_p"], true});
  result.weights = convert(builder, values, dtype);
  result.logsumexp = softmax.logsumexp;
  Expr batch = symbolic::numel(shapes.key_batch);
  Argument weights = builder.call("aten.reshape.default",
                                  {result.weights, sizes_argument({batch, rows, shapes.columns})});
  Argument output = builder.call("aten.bmm.default", {weights, value});
  result.output = builder.call(
      "aten.view.default",
      {output, sizes_argument(with_matrix(shapes.batch, shapes.rows, shapes.value_depth))});
  return result;
}

Argument attention(GraphBuilder &builder, const Call &call) {
  Attention result = attend(builder, call, call["scale"], call["dropout_state"]);
  return Arguments{in_promised_order(builder, result.output, call.tensor("query")),
                   result.logsumexp};
}

/// The factor of the scores: what is asked for, or 1 / sqrt(depth), a tensor of rank 0 where the
/// depth is a symbol.
Argument scale_of(GraphBuilder &builder, const Call &call) {
  if (call.has("scale"))
    return call["scale"];
  const TensorMeta query = call.tensor("query");
  const Expr depth = last_size(call, "query");
  if (depth.is_integer())
    return 1 / std::sqrt(static_cast<double>(depth.value()));
  const Argument number =
      builder.call("aten.full.default", {Arguments{}, size_argument(depth)},
                   {{"dtype", accumulation_dtype(query.dtype)}, {"device", query.device}});
  return builder.call("aten.rsqrt.default", {number});
}

void refuse_dropout(const Call &call) {
  if (call.number("dropout_p") != 0)
    call.fail("TSC-O032", call.node().target + " with dropout draws random numbers",
              "call model.eval() before exporting");
}

/// The kernels take fewer heads of keys than of queries as they are.
bool has_heads_in_groups(const Call &call) {
  const std::vector<Expr> &query = call.tensor("query").layout.sizes,
                          &key = call.tensor("key").layout.sizes;
  if (query.size() != 4 || key.size() != 4 || !query[1].is_integer() || !key[1].is_integer())
    return false;
  const int64_t heads = query[1].value(), key_heads = key[1].value();
  return key_heads > 0 && heads > key_heads && heads % key_heads == 0;
}

/// Any of PyTorch's forms as tsc.attention: (output, logsumexp).
Argument to_attention(GraphBuilder &builder, const Call &call,
                      const Argument &dropout_state = graph::None{}) {
  Argument mask = graph::None{};
  bool grouped = has_heads_in_groups(call); // asked for by name, or taken by a kernel
  for (const Parameter &parameter : call.schema().parameters) {
    if (parameter.name == "attn_mask" || parameter.name == "attn_bias")
      mask = call[parameter.name];
    if (parameter.name == "enable_gqa")
      grouped = call.boolean("enable_gqa");
  }
  Arguments args = {call["query"],           call["key"], call["value"], mask, call["is_causal"],
                    scale_of(builder, call), grouped};
  if (call.number("dropout_p") != 0) {
    args.push_back(call["dropout_p"]);
    args.push_back(dropout_state);
  }
  return builder.call(kAttention, std::move(args));
}

/// The logarithmic sums [batch, heads, rows] as the kernel saves them: the memory-efficient one
/// fills the rows up to a multiple of 32, or saves none; cuDNN's has a last dimension of 1.
Argument saved_sums(GraphBuilder &builder, const Call &call, const Argument &sums) {
  const std::string &target = call.node().target;
  if (target.find("cudnn") != std::string::npos)
    return builder.call("aten.unsqueeze.default", {sums, -1});
  if (target.find("efficient") == std::string::npos)
    return sums;
  constexpr int64_t kTogether = 32;
  const TensorMeta meta = builder.meta(sums);
  const Expr rows = meta.layout.sizes.back();
  const Expr more = call.boolean("compute_log_sumexp")
                        ? symbolic::ceil_div(rows, Expr(kTogether)) * Expr(kTogether) - rows
                        : -rows;
  const Expr pad = symbolic::simplify(more, call.ranges());
  return pad.is_integer(0) ? sums
                           : builder.call("aten.constant_pad_nd.default",
                                          {sums, Arguments{0, size_argument(pad)}, INFINITY});
}

/// The forms that return more than output and logsumexp: what remains is for the backward pass or
/// debugging.
Argument to_attention_with_state(GraphBuilder &builder, const Call &call) {
  const double p = call.number("dropout_p");
  check_probability(call, p);
  const bool saves_state = call.schema().returns.size() > 2;
  if (p != 0 && !saves_state)
    refuse_dropout(call);
  const Argument state =
      p != 0 ? new_dropout_state(builder, call.tensor("query").device) : Argument(graph::None{});
  Argument pair = to_attention(builder, call, state);
  Arguments results;
  results.push_back(builder.item(pair, 0));
  results.push_back(saved_sums(builder, call, builder.item(pair, 1)));
  for (size_t i = 2; i < call.schema().returns.size(); ++i)
    if (call.schema().returns[i].type == "Tensor")
      results.push_back(saved_dropout_state(builder, call, i, state));
    else
      results.push_back(0);
  return results;
}

/// (output, weights): what the forms without a fused kernel yield.
Argument attention_with_weights(GraphBuilder &builder, const Call &call) {
  refuse_dropout(call);
  Attention result = attend(builder, call, scale_of(builder, call));
  return Arguments{result.output, result.weights};
}

/// Softmax where a row that is -inf throughout gives zeros.
Argument safe_softmax(GraphBuilder &builder, const Call &call) {
  Argument values = builder.call("aten.softmax.int", {call["self"], call["dim"], call["dtype"]});
  Argument hidden = builder.call("aten.eq.Tensor", {call["self"], -INFINITY});
  Argument all = builder.call("aten.all.dim", {hidden, call["dim"], true});
  return builder.call(kWhere, {all, 0.0, values});
}

/// Whether results of rank 5 lie as if their first two dimensions were one.
bool has_one_batch(const Call &call) {
  const Value value = attention_value(call);
  const tensor::Layout &out = value.list()->front().tensor()->layout;
  return out.rank() != 5 || out.sizes[0].is_integer(1) || out.sizes[1].is_integer(1) ||
         symbolic::simplify(out.strides[0] - out.sizes[1] * out.strides[1], call.ranges())
             .is_integer(0);
}

/// Whether one kernel can compute this call of tsc.attention whole: floats of 16 or 32 bits, a
/// depth that fills 16-byte accesses, whole batches.
bool fits_one_kernel(const Call &call, const AttentionKernels &kernels) {
  constexpr int64_t kMostBlocks = 65535; // along the second and third axis of a grid
  const Shapes shapes = shapes_of(call);
  const TensorMeta &query = call.tensor("query"), &key = call.tensor("key"),
                   &value = call.tensor("value");
  const bool floats = query.dtype == DType::f32 && kernels.floats_pay;
  const bool dtypes = (query.dtype == DType::f16 || query.dtype == DType::bf16 || floats) &&
                      key.dtype == query.dtype && value.dtype == query.dtype;
  const int64_t deepest = floats ? tc_float_depth : kernels.deepest;
  const bool depths = shapes.depth.is_integer() && shapes.depth.value() % 8 == 0 &&
                      shapes.depth.value() >= 8 && shapes.depth.value() <= deepest &&
                      shapes.value_depth == shapes.depth;
  const size_t rank = query.layout.rank();
  const bool whole = rank >= 3 && rank <= 5 && has_one_batch(call) &&
                     without_matrix(query.layout.sizes) == shapes.batch &&
                     without_matrix(key.layout.sizes) == shapes.key_batch &&
                     without_matrix(value.layout.sizes) == shapes.key_batch;
  const bool large =
      !symbolic::numel(query.layout.sizes).is_integer(0) && !shapes.columns.is_integer(0);
  const bool rows_together =
      attention_value(call).list()->front().tensor()->layout.strides.back().is_integer(1);
  Sizes grid = shapes.batch;
  if (rank == 5) { // batches of batches
    grid[1] = grid[0] * grid[1];
    grid.erase(grid.begin());
  }
  const bool grid_fits = std::all_of(grid.begin(), grid.end(), [](Expr size) {
    return !size.is_integer() || size.value() <= kMostBlocks;
  });
  const TensorMeta *mask = call.optional_tensor("attn_mask");
  const bool mask_fits = !mask || (mask->layout.rank() <= rank &&
                                   (mask->dtype == DType::boolean || mask->dtype == DType::f16 ||
                                    mask->dtype == DType::bf16 || mask->dtype == DType::f32));
  if (call["scale"].node()) // of a depth that is a symbol
    return false;
  const double scale = call.number("scale");
  return dtypes && depths && whole && large && rows_together && grid_fits && mask_fits &&
         scale > 0 && std::isfinite(scale) && call.number("dropout_p") == 0;
}

/// The parts of a call that fits one kernel: 1: a kernel for few queries and its result, 0: the one
/// for many; none: products.
std::optional<int64_t> parts_of(const Call &call, const AttentionKernels &kernels,
                                const Graph &graph) {
  const AttentionParts &parts = kernels.parts;
  const Shapes shapes = shapes_of(call);
  const auto known = [&](Expr size, long long guess) {
    return size.is_integer() || has_likely_size(size, graph)
               ? static_cast<long long>(likely_size(size, graph).value())
               : guess;
  };
  const Sizes &heads = shapes.batch, &key_heads = shapes.key_batch;
  if (call.tensor("query").dtype == DType::f32) {
    constexpr int64_t kMany = 1 << 20; // heads, of a number that is a symbol
    const Expr all = symbolic::simplify(symbolic::numel(heads), call.ranges());
    const tc_few_work work = {1,
                              known(all, kMany),
                              known(all, kMany),
                              known(shapes.rows, 1024),
                              known(shapes.columns, 1024),
                              static_cast<int>(shapes.depth.value())};
    return kernels.floats_pay(work, call.boolean("is_causal")) ? std::optional<int64_t>(0)
                                                               : std::nullopt;
  }
  if (!shapes.rows.is_integer() || shapes.rows.value() > tc_few_queries)
    return 0;
  const bool fits = parts && heads.back().is_integer() && key_heads.back().is_integer() &&
                    shapes.depth.value() <= tc_few_depth;
  if (!fits)
    return shapes.rows.value() > tc_few_products ? std::optional<int64_t>(0) : std::nullopt;
  constexpr int64_t kBatches = 1, kKeys = 4096; // guesses
  long long batches = 1;
  for (size_t i = 0; i + 1 < heads.size(); ++i)
    batches *= known(heads[i], kBatches);
  // A cache that grows may be long when the example was short: too many parts cost a launch of a
  // few microseconds, too few leave multiprocessors idle all along it.
  long long keys = known(shapes.columns, kKeys);
  if (!shapes.columns.is_integer())
    keys = std::max<long long>(
        keys, std::min(symbolic::bounds(shapes.columns, call.ranges()).high, kKeys));
  return parts({batches, heads.back().value(), key_heads.back().value(), shapes.rows.value(), keys,
                static_cast<int>(shapes.depth.value())});
}

} // namespace

void choose_fused_attention(Graph &graph, const AttentionKernels &kernels) {
  const std::vector<uint32_t> users = graph::count_users(graph);
  std::vector<bool> output_only(graph.nodes.size(), true); // by node: nobody takes its logsumexp
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    const Node &node = graph.node(id);
    const graph::NodeRef *of =
        node.target == "operator.getitem" && !node.args.empty() ? node.args[0].node() : nullptr;
    if (of && users[id] > 0 && !(node.args.at(1) == Argument(int64_t{0})))
      output_only[of->id] = false;
  }
  const Operator &row = *find_operator(kAttention);
  const auto ranges = std::make_shared<const symbolic::Ranges>(graph.ranges());
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    if (graph.node(id).target != kAttention)
      continue;
    const Call call(graph, graph.node(id), row.schema, ranges);
    if (!fits_one_kernel(call, kernels))
      continue;
    const std::optional<int64_t> parts = parts_of(call, kernels, graph);
    if (!parts)
      continue;
    Node &node = graph.nodes[id];
    node.target = *parts > 1 ? kInParts : output_only[id] ? kOutputOnly : kWithSums;
    if (*parts > 1)
      node.kwargs.emplace_back("parts", *parts);
  }
}

void add_attention(Table &table) {
  const std::string operands = "(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool "
                               "is_causal, float scale, bool enable_gqa";
  table
      .add("tsc::attention(Tensor query, Tensor key, Tensor value, Tensor? attn_mask, bool "
           "is_causal, float scale, "
           "bool enable_gqa, float dropout_p=0.0, Tensor? dropout_state=None) -> (Tensor output, "
           "Tensor logsumexp)")
      .shape(attention_value)
      .decompose(attention)
      .lowers("attention");
  // One kernel's work: what choose_fused_attention makes of tsc.attention.
  const auto fused_call = [](GraphBuilder &builder, const Call &call, std::string_view target) {
    return builder.call(target, {call["query"], call["key"], call["value"], call["attn_mask"],
                                 call["is_causal"], call["scale"], call["enable_gqa"]});
  };
  const std::string both = " -> (Tensor output, Tensor logsumexp)";
  table.add(keep_text("tsc::attention.output_only" + operands + ", float dropout_p=0.0)" + both))
      .shape(attention_value)
      .decompose([fused_call](GraphBuilder &builder, const Call &call) -> Argument {
        return Arguments{fused_call(builder, call, kFused), graph::None{}};
      });
  table.add(keep_text("tsc::attention.with_sums" + operands + ", float dropout_p=0.0)" + both))
      .shape(attention_value)
      .decompose([fused_call](GraphBuilder &builder, const Call &call) -> Argument {
        const Argument pair = fused_call(builder, call, kFusedWithSums);
        return Arguments{builder.item(pair, 0), builder.item(pair, 1)};
      });
  table.add(keep_text("tsc::fused_attention" + operands + ") -> Tensor"))
      .shape([](const Call &call) { return attention_value(call).list()->front(); })
      .lowers("fused_attention");
  table.add(keep_text("tsc::fused_attention.with_sums" + operands + ")" + both))
      .shape(attention_value)
      .lowers("fused_attention");
  table
      .add("scaled_dot_product_attention(Tensor query, Tensor key, Tensor value, Tensor? "
           "attn_mask=None, float "
           "dropout_p=0.0, bool is_causal=False, *, float? scale=None, bool enable_gqa=False) -> "
           "Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        return builder.item(to_attention(builder, call), 0);
      });
  table
      .add("_scaled_dot_product_attention_math(Tensor query, Tensor key, Tensor value, Tensor? "
           "attn_mask=None, float dropout_p=0.0, bool is_causal=False, Tensor? dropout_mask=None, "
           "*, float? scale=None, bool enable_gqa=False) -> (Tensor, Tensor)")
      .decompose(attention_with_weights);
  table.add("_safe_softmax(Tensor self, int dim, ScalarType? dtype=None) -> Tensor")
      .decompose(safe_softmax);
  const std::string_view fused[] = {
      "_scaled_dot_product_fused_attention_overrideable(Tensor query, Tensor key, Tensor value, "
      "Tensor? attn_bias=None, float dropout_p=0.0, bool is_causal=False, bool "
      "return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor logsumexp, Tensor "
      "cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor philox_seed, Tensor "
      "philox_offset, Tensor debug_attn_mask)",
      "_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float "
      "dropout_p=0.0, bool "
      "is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, "
      "Tensor logsumexp, "
      "Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor "
      "unused, Tensor "
      "debug_attn_mask)",
      "_scaled_dot_product_flash_attention_for_cpu(Tensor query, Tensor key, Tensor value, float "
      "dropout_p=0.0, bool "
      "is_causal=False, *, Tensor? attn_mask=None, float? scale=None) -> (Tensor output, Tensor "
      "logsumexp)",
      "_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? "
      "attn_bias, bool "
      "compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, *, float? scale=None) -> "
      "(Tensor output, "
      "Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)",
      "_scaled_dot_product_cudnn_attention(Tensor query, Tensor key, Tensor value, Tensor? "
      "attn_bias, bool "
      "compute_log_sumexp, float dropout_p=0.0, bool is_causal=False, bool "
      "return_debug_mask=False, *, float? "
      "scale=None) -> (Tensor output, Tensor logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt "
      "max_q, SymInt "
      "max_k, Tensor philox_seed, Tensor philox_offset, Tensor debug_attn_mask)"};
  for (std::string_view form : fused)
    table.add(form).decompose(to_attention_with_state);
}

} // namespace tsc::ops
