// What comes to queries, keys, values and captured tensors of flex_attention: products, and the
// function that PyTorch traced of the score function's gradient, over all scores.
#include "ops/families/flex_functions.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/precision.h"
#include "ops/table/table.h"

#include <limits>
#include <numbers>

namespace tsc::ops {
namespace {

using namespace flex;

constexpr std::string_view kScatter = "flex_lib.zeros_and_scatter.default";
constexpr size_t kPlaces = 5; // of what the joint graph yields: for the score, and four places

/// How the gradient of a captured tensor comes about: added to zeros at indices, or, of a number,
/// added up.
struct Captured {
  size_t tensor = 0;             // which
  size_t indices = 0;            // results that are indices, from `first` on
  std::optional<size_t> numbers; // the result that is what is added; nothing: nobody takes it
};
struct Joint {
  Graph graph; // yields what comes to the score, then what `captured` says
  std::vector<Captured> captured;
};

/// The joint graph without what nobody takes: scatters are left to all elements together.
Joint joint_of(const Call &call) {
  Joint joint{subgraph_of(call, std::string_view("joint_graph")), {}};
  Graph &graph = joint.graph;
  Argument &yielded = graph.nodes.back().args.at(0);
  const Arguments given = yielded.list() ? *yielded.list() : Arguments{yielded};
  if (given.empty() || !given[0].node())
    call.fail("TSC-O125", call.node().target + ": the joint graph yields no gradient of the scores",
              "export the graph again");
  Arguments results = {given[0]};
  for (size_t i = kPlaces; i < given.size(); ++i) {
    Captured captured;
    captured.tensor = i - kPlaces;
    if (const graph::NodeRef *of = given[i].node()) {
      const Node &node = graph.node(of->id);
      if (node.target == kScatter) {
        const Arguments indices = *node.args.at(1).list();
        captured.indices = indices.size();
        captured.numbers = results.size() + indices.size();
        results.insert(results.end(), indices.begin(), indices.end());
        results.push_back(node.args.at(2));
      } else {
        captured.numbers = results.size();
        results.push_back(given[i]);
      }
    }
    joint.captured.push_back(captured);
  }
  yielded = std::move(results);
  return joint;
}

/// Of captured tensor `captured.tensor`: `results` over all elements of the batch, added up.
Argument captured_gradient(GraphBuilder &builder, const Call &call, const Captured &captured,
                           const std::vector<BatchedValue> &results, const Sizes &batch) {
  if (!captured.numbers)
    return graph::None{};
  const TensorMeta tensor =
      builder.meta(call["score_mod_other_buffers"].list()->at(captured.tensor));
  const BatchedValue &numbers = results[*captured.numbers];
  const auto flat = [&](const BatchedValue &value) {
    return builder.call("aten.reshape.default",
                        {expanded_to_batch(builder, value, 0, batch), Arguments{-1}});
  };
  const DType dtype = builder.meta(numbers.value).dtype;
  if (captured.indices == 0) {
    if (tensor.layout.rank() != 0)
      call.refuse("TSC-O190",
                  call.node().target + ": what comes to captured tensor " +
                      std::to_string(captured.tensor) + " is no sum at indices",
                  "look its elements up by index in the score function");
    return convert(builder,
                   builder.call("aten.sum.dim_IntList", {flat(numbers), Arguments{0}, false}),
                   tensor.dtype);
  }
  Arguments indices;
  for (size_t i = 0; i < captured.indices; ++i)
    indices.push_back(flat(results[*captured.numbers - captured.indices + i]));
  const Argument zeros = builder.call("aten.full.default", {sizes_argument(tensor.layout.sizes), 0},
                                      {{"dtype", dtype}, {"device", tensor.device}});
  return convert(builder,
                 builder.call("aten.index_put.default", {zeros, indices, flat(numbers), true}),
                 tensor.dtype);
}

/// Added up over the query heads that share a key's, and over batches that share all keys.
Argument shared(GraphBuilder &builder, const Argument &x, const Operands &of) {
  Sizes sizes = builder.meta(x).layout.sizes;
  Argument result = x;
  if (!of.groups.is_integer(1)) {
    const Expr heads = of.key.layout.sizes[1];
    result = builder.call("aten.reshape.default",
                          {x, sizes_argument({sizes[0], heads, of.groups, sizes[2], sizes[3]})});
    result = builder.call("aten.sum.dim_IntList", {result, Arguments{2}, false});
  }
  if (!same_size(sizes[0], of.key.layout.sizes[0], builder.ranges()))
    result = builder.call("aten.sum.dim_IntList", {result, Arguments{0}, true});
  return result;
}

/// (of queries, of keys, of values, of captured tensors).
Argument flex_attention_backward(GraphBuilder &builder, const Call &call) {
  const Operands of = operands_of(call);
  const Functions functions = functions_of(builder, call, "fw_graph");
  const DType wide = functions.wide, dtype = of.query.dtype;
  Joint joint = joint_of(call);
  const Function gradient(builder, call, std::move(joint.graph), {1, 1}, "score_mod_other_buffers",
                          wide);
  const auto widened = [&](std::string_view name) { return convert(builder, call[name], wide); };
  const auto columns = [&](const Argument &rows) {
    return builder.call("aten.unsqueeze.default", {rows, -1});
  };
  const auto at_rows = [&](const Argument &x) { // adds along a row
    return builder.call("aten.sum.dim_IntList", {x, Arguments{-1}, true});
  };
  const double infinity = std::numeric_limits<double>::infinity();

  const Scores scores = scores_of(builder, call, functions);
  const Argument sums = builder.call(kMul, {widened("logsumexp"), std::numbers::ln2});
  const Argument sees = columns(builder.call("aten.ne.Scalar", {sums, -infinity}));
  const Argument weights = builder.call(
      kWhere,
      {sees, builder.call("aten.exp.default", {builder.call(kSub, {scores.after, columns(sums)})}),
       0.0});
  Argument of_rows; // what a row's weights have to do with one another
  Argument above = builder.call("aten.full_like.default", {call["out"], 0.0});
  if (call["grad_out"].node())
    above = call["grad_out"];
  of_rows =
      builder.call("aten.neg.default",
                   {at_rows(builder.call(kMul, {widened("out"), convert(builder, above, wide)}))});
  if (call["grad_logsumexp"].node())
    of_rows = builder.call(
        kAdd,
        {of_rows, columns(builder.call(kDiv, {widened("grad_logsumexp"), std::numbers::ln2}))});
  const Argument values = for_every_head(builder, call["value"], of);
  const Argument of_weights = wide_product(builder, above, turned(builder, values), wide);
  const Argument of_changed =
      builder.call(kMul, {weights, builder.call(kAdd, {of_weights, of_rows})});
  const std::vector<BatchedValue> results =
      gradient.results({scores.before, of_changed}, functions.batch);
  Argument of_scores =
      convert(builder, expanded_to_batch(builder, results.front(), 0, functions.batch), wide);
  of_scores = convert(builder, builder.call(kMul, {of_scores, call["scale"]}), dtype);
  if (!functions.mask.is_true())
    of_scores = convert(
        builder, builder.call(kWhere, {functions.mask({}, functions.batch).value, of_scores, 0.0}),
        dtype);

  const auto result = [&](const Argument &a, const Argument &b, const TensorMeta &like) {
    const Argument product = wide_product(builder, a, b, wide);
    const Argument added = &like == &of.query ? product : shared(builder, product, of);
    return in_order_of(builder, convert(builder, added, like.dtype), like);
  };
  const Argument keys = for_every_head(builder, call["key"], of);
  Arguments captured;
  for (const Captured &each : joint.captured)
    captured.push_back(captured_gradient(builder, call, each, results, functions.batch));
  return Arguments{
      result(of_scores, keys, of.query), result(turned(builder, of_scores), call["query"], of.key),
      result(turned(builder, convert(builder, weights, dtype)), above, of.value), captured};
}

Value flex_attention_backward_value(const Call &call) {
  const Operands of = operands_of(call);
  Value::List captured;
  const Joint joint = joint_of(call);
  for (const Captured &each : joint.captured) {
    const Arguments *list = call["score_mod_other_buffers"].list();
    const Value *value =
        list && each.tensor < list->size() ? call.value_of(list->at(each.tensor)) : nullptr;
    if (!each.numbers || !value || !value->tensor())
      captured.emplace_back();
    else
      captured.push_back(contiguous_value(value->tensor()->dtype, value->tensor()->layout.sizes,
                                          value->tensor()->device));
  }
  return Value{Value::List{value_in_order_of(of.query, of.query.layout.sizes),
                           value_in_order_of(of.key, of.key.layout.sizes),
                           value_in_order_of(of.value, of.value.layout.sizes),
                           Value{std::move(captured)}}};
}

} // namespace

void add_flex_attention_gradients(Table &table) {
  table
      .add("higher_order::flex_attention_backward(Tensor query, Tensor key, Tensor value, Tensor "
           "out, Tensor logsumexp, Tensor? grad_out, Tensor? grad_logsumexp, Any fw_graph, Any "
           "joint_graph, Any block_mask, float scale, Any kernel_options, Any "
           "score_mod_other_buffers=[], Any mask_mod_other_buffers=[]) -> Any")
      .shape(flex_attention_backward_value)
      .decompose(flex_attention_backward);
  table.add("flex_lib::zeros_and_scatter(SymInt[] shape, Tensor[] indices, Tensor vals) -> Tensor")
      .decompose([](GraphBuilder &builder, const Call &call) {
        const TensorMeta vals = call.tensor("vals");
        const Argument zeros = builder.call("aten.full.default", {call["shape"], 0},
                                            {{"dtype", vals.dtype}, {"device", vals.device}});
        return builder.call("aten.index_put.default", {zeros, call["indices"], call["vals"], true});
      });
}

} // namespace tsc::ops
