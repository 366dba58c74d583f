// scan, map and associative_scan: a function of slices along the first dimension. What is
// elementwise is computed for all slices at once; other functions slice after slice, in line if
// that is short, else in a loop.
#include "ops/families/assertions.h"
#include "ops/families/batched_graph.h"
#include "ops/families/combine_scans.h"
#include "ops/families/control_flow.h"
#include "ops/table/pointwise_rules.h"
#include "ops/table/shape_rules.h"
#include "ops/table/table.h"

#include <algorithm>

namespace tsc::ops {
namespace {

using graph::NodeKind;
using graph::NodeRef;

constexpr size_t kMostNodesInLine = 4096; // of all slices

const Arguments &list_of(const Call &call, std::string_view parameter) {
  static const Arguments kNone;
  const Arguments *list = call[parameter].list();
  return list ? *list : kNone;
}

const TensorMeta *meta_of(const GraphBuilder &builder, const Argument &argument) {
  const NodeRef *node = argument.node();
  const std::optional<Value> *value = node ? &builder.graph().node(node->id).value : nullptr;
  return value && *value ? (*value)->tensor() : nullptr;
}

/// A slice's place: the tensor without its first dimension.
TensorMeta slice_of(TensorMeta meta) {
  meta.layout.sizes.erase(meta.layout.sizes.begin());
  meta.layout.strides = tensor::contiguous_strides(meta.layout.sizes);
  meta.layout.offset = 0;
  return meta;
}

/// A call of one of them: what is carried, what is sliced, what every slice sees.
struct Loop {
  Arguments carried, sliced, others;
  Expr length = 0;
  Graph body; // prepared: (carried.., slices.., others..)

  /// Those of branches and loops in it, too.
  size_t nodes() const {
    size_t count = body.nodes.size();
    for (const auto &entry : body.subgraphs)
      count += entry.second.nodes.size();
    return count;
  }
};

Loop loop_of(GraphBuilder &builder, const Call &call, std::string_view graph, Arguments carried,
             Arguments others) {
  Loop loop;
  loop.carried = std::move(carried);
  loop.sliced = list_of(call, "xs");
  loop.others = std::move(others);
  std::vector<std::optional<TensorMeta>> metas;
  const auto add = [&](const Argument &argument, bool is_sliced) {
    const TensorMeta *meta = meta_of(builder, argument);
    if (is_sliced && (!meta || meta->layout.sizes.empty()))
      call.fail("TSC-O125", call.node().target + ": what is sliced has no first dimension",
                "pass tensors of at least 1 dimension");
    if (is_sliced && metas.size() > loop.carried.size() &&
        !taken_equal(call, meta->layout.sizes[0], loop.length))
      call.fail("TSC-O125",
                call.node().target + ": the numbers of slices " + symbolic::print(loop.length) +
                    " and " + symbolic::print(meta->layout.sizes[0]) + " differ",
                "pass tensors with equally many slices");
    if (is_sliced)
      loop.length = meta->layout.sizes[0];
    metas.push_back(meta ? std::optional(is_sliced ? slice_of(*meta) : *meta) : std::nullopt);
  };
  for (const Argument &each : loop.carried)
    add(each, false);
  if (loop.sliced.empty())
    call.fail("TSC-O125", call.node().target + " over nothing", "pass a tensor to slice");
  for (const Argument &each : loop.sliced)
    add(each, true);
  if (loop.length.is_integer(0))
    call.fail("TSC-O125", call.node().target + " over no slices", "pass at least one slice");
  for (const Argument &each : loop.others)
    add(each, false);
  loop.body = prepared_body(call, subgraph_of(call, graph), metas);
  return loop;
}

/// The result that the whole loop has for the slices' result `k`, as it is before the first one.
Argument room_for(GraphBuilder &builder, const Loop &loop, size_t k) {
  const Argument &value = loop.body.outputs[loop.carried.size() + k].value;
  const TensorMeta meta = *loop.body.node(value.node()->id).value->tensor();
  std::vector<Expr> sizes = meta.layout.sizes;
  sizes.insert(sizes.begin(), loop.length);
  return builder.call(
      "aten.full.default",
      {sizes_argument(sizes), meta.dtype == DType::boolean ? Argument(false) : Argument(0)},
      {{"dtype", meta.dtype}, {"device", meta.device}});
}

Arguments in_line(GraphBuilder &builder, const Loop &loop) {
  const size_t carried = loop.carried.size(), stacked = loop.body.outputs.size() - carried;
  std::vector<Argument> state(loop.carried.begin(), loop.carried.end());
  std::vector<Arguments> parts(stacked);
  for (int64_t i = 0; i < loop.length.value(); ++i) {
    std::vector<Argument> inputs = state;
    for (const Argument &each : loop.sliced)
      inputs.push_back(builder.call("aten.select.int", {each, 0, i}));
    inputs.insert(inputs.end(), loop.others.begin(), loop.others.end());
    const std::vector<Argument> results = spliced(builder, loop.body, inputs);
    std::copy_n(results.begin(), carried, state.begin());
    for (size_t k = 0; k < stacked; ++k)
      parts[k].push_back(results[carried + k]);
  }
  Arguments results(state.begin(), state.end());
  for (Arguments &each : parts)
    results.push_back(builder.call("aten.stack.default", {std::move(each), 0}));
  return results;
}

/// Placeholders of a graph under construction, like these tensors.
Arguments placeholders(GraphBuilder &builder, const std::vector<TensorMeta> &metas) {
  Arguments results;
  for (size_t k = 0; k < metas.size(); ++k) {
    Node node;
    node.kind = NodeKind::placeholder;
    node.name = node.target = builder.fresh_name("tsc.operand_" + std::to_string(k));
    node.value = Value{metas[k]};
    results.emplace_back(NodeRef{builder.append(std::move(node))});
  }
  return results;
}

void finish(GraphBuilder &builder, Arguments results) {
  Node output;
  output.kind = NodeKind::output;
  output.name = output.target = "output";
  output.args = {std::move(results)};
  builder.append(std::move(output));
}

/// while (i < length): what is carried is i, the state, and the results so far.
Arguments in_a_loop(GraphBuilder &builder, const Call &call, const Loop &loop) {
  const size_t carried = loop.carried.size(), stacked = loop.body.outputs.size() - carried;
  const tensor::Device device = builder.meta(loop.sliced[0]).device;
  Arguments state = {builder.call("aten.full.default", {Arguments{}, 0},
                                  {{"dtype", DType::i64}, {"device", device}})};
  state.insert(state.end(), loop.carried.begin(), loop.carried.end());
  for (size_t k = 0; k < stacked; ++k)
    state.push_back(room_for(builder, loop, k));
  Arguments others = loop.sliced; // tensors; numbers stand for themselves
  std::vector<size_t> place(loop.others.size(), SIZE_MAX);
  for (size_t k = 0; k < loop.others.size(); ++k)
    if (loop.others[k].node()) {
      place[k] = others.size();
      others.push_back(loop.others[k]);
    }
  std::vector<TensorMeta> metas;
  Value::List values;
  for (const Argument &each : state) {
    TensorMeta meta = builder.meta(each);
    meta.layout = tensor::contiguous_layout(meta.layout.sizes);
    metas.push_back(meta);
    values.push_back(Value{meta});
  }
  for (const Argument &each : others)
    metas.push_back(builder.meta(each));

  Graph condition, body;
  for (Graph *graph : {&condition, &body})
    graph->symbols = builder.graph().symbols;
  {
    GraphBuilder inner(condition, builder.shared_ranges());
    const Arguments given = placeholders(inner, metas);
    finish(inner, {inner.call("aten.lt.Tensor", {given[0], size_argument(loop.length)})});
  }
  {
    GraphBuilder inner(body, builder.shared_ranges());
    inner.set_source(call.node());
    const Arguments given = placeholders(inner, metas);
    std::vector<Argument> inputs(given.begin() + 1,
                                 given.begin() + 1 + static_cast<ptrdiff_t>(carried));
    const auto other = [&](size_t k) { return given[state.size() + k]; };
    for (size_t k = 0; k < loop.sliced.size(); ++k)
      inputs.push_back(inner.call("aten.index.Tensor", {other(k), Arguments{given[0]}}));
    for (size_t k = 0; k < loop.others.size(); ++k)
      inputs.push_back(place[k] == SIZE_MAX ? loop.others[k] : other(place[k]));
    const std::vector<Argument> computed = spliced(inner, loop.body, inputs);
    Arguments results = {inner.call(kAdd, {given[0], 1})};
    results.insert(results.end(), computed.begin(),
                   computed.begin() + static_cast<ptrdiff_t>(carried));
    for (size_t k = 0; k < stacked; ++k)
      results.push_back(
          inner.call("aten.index_put.default",
                     {given[1 + carried + k], Arguments{given[0]}, computed[carried + k], false}));
    finish(inner, std::move(results));
  }
  Node node;
  node.name = builder.fresh_name(kWhileLoop);
  node.kind = NodeKind::call_function;
  node.target = std::string(kWhileLoop);
  node.args = {graph::GraphRef{builder.add_subgraph("slices_condition", std::move(condition))},
               graph::GraphRef{builder.add_subgraph("slices_body", std::move(body))}, state,
               others};
  node.origins = call.node().origins;
  node.stack_trace = call.node().stack_trace;
  node.value = Value{std::move(values)};
  const Argument whole = NodeRef{builder.append(std::move(node))};
  Arguments results;
  for (size_t k = 1; k < state.size(); ++k)
    results.push_back(builder.item(whole, static_cast<int64_t>(k)));
  return results;
}

/// Whether the function reads a number of its data, which has one name however often it runs.
bool reads_numbers(const Loop &loop) {
  return std::any_of(loop.body.nodes.begin(), loop.body.nodes.end(),
                     [](const Node &node) { return node.target == kDefine; });
}

/// Slice after slice.
Arguments in_order(GraphBuilder &builder, const Call &call, const Loop &loop) {
  const bool is_short = !reads_numbers(loop) && loop.length.is_integer() &&
                        static_cast<size_t>(loop.length.value()) <=
                            kMostNodesInLine / std::max<size_t>(1, loop.nodes());
  return is_short ? in_line(builder, loop) : in_a_loop(builder, call, loop);
}

Argument scan(GraphBuilder &builder, const Call &call) {
  const Loop loop =
      loop_of(builder, call, "combine", list_of(call, "init"), list_of(call, "additional"));
  if (loop.body.outputs.size() < loop.carried.size())
    call.fail("TSC-O125", call.node().target + ": its function yields too little",
              "yield every carried value");
  for (size_t k = 0; k < loop.carried.size(); ++k) {
    const TensorMeta *given = meta_of(builder, loop.carried[k]);
    const TensorMeta &next = *loop.body.node(loop.body.outputs[k].value.node()->id).value->tensor();
    bool fits = given && given->dtype == next.dtype && given->layout.rank() == next.layout.rank();
    for (size_t i = 0; fits && i < next.layout.rank(); ++i)
      fits = taken_equal(call, given->layout.sizes[i], next.layout.sizes[i]);
    if (!fits)
      call.fail("TSC-O125",
                call.node().target + ": carried value " + std::to_string(k) +
                    " changes its dtype or sizes",
                "carry a tensor that stays as it is");
  }
  return in_order(builder, call, loop);
}

Argument map(GraphBuilder &builder, const Call &call) {
  const Loop loop = loop_of(builder, call, "body", {}, list_of(call, "others"));
  if (unbatched_operator(loop.body))
    return in_order(builder, call, loop);
  std::vector<BatchedValue> inputs;
  for (const Argument &each : loop.sliced)
    inputs.push_back({each, true});
  for (const Argument &each : loop.others)
    inputs.push_back({each, false});
  Arguments results;
  const std::vector<BatchedValue> values = batched(builder, loop.body, inputs, {loop.length});
  for (size_t k = 0; k < values.size(); ++k) {
    const Node &own = loop.body.node(loop.body.outputs[k].value.node()->id);
    results.push_back(builder.call(
        "aten.clone.default",
        {expanded_to_batch(builder, values[k], own.value->tensor()->layout.rank(), {loop.length})},
        {{"memory_format", graph::MemoryFormat::contiguous}}));
  }
  return results;
}

/// The operator of a function (a, b) -> a operator b.
std::string only_operator(const Graph &body) {
  const Node *only = nullptr;
  for (const Node &node : body.nodes)
    if (node.kind == NodeKind::call_function) {
      if (only)
        return "";
      only = &node;
    }
  if (!only || body.outputs.size() != 1 || only->args.size() != 2 || !only->args[0].node() ||
      !only->args[1].node() || only->args[0].node()->id + only->args[1].node()->id != 1)
    return "";
  return only->target;
}

/// One scan of elements where the function has nothing else to do; else x[i] = x[i - d] combined
/// with x[i], for d = 1, 2, 4, ..
Argument associative_scan(GraphBuilder &builder, const Call &call) {
  const Arguments &xs = list_of(call, "xs"), &others = list_of(call, "additional");
  Arguments carried; // the body takes two slices of each: the first counts as carried
  for (const Argument &each : xs)
    if (meta_of(builder, each) && !meta_of(builder, each)->layout.sizes.empty())
      carried.push_back(builder.call("aten.select.int", {each, 0, 0}));
  const Loop loop = loop_of(builder, call, "combine", carried, others);
  if (loop.body.outputs.size() != xs.size())
    call.fail("TSC-O125", call.node().target + ": its function yields another number of tensors",
              "yield as many as are scanned");
  const std::string only = xs.size() == 1 && others.empty() ? only_operator(loop.body) : "";
  if (only == kAdd || only == kMul)
    return Arguments{builder.call(only == kAdd ? "aten.cumsum.default" : "aten.cumprod.default",
                                  {xs[0], 0}, {{"dtype", builder.meta(xs[0]).dtype}})};
  if (std::optional<Argument> scanned = scanned_at_once(builder, call, loop.body, xs, others))
    return std::move(*scanned);
  if (const std::optional<std::string> target = unbatched_operator(loop.body))
    call.refuse("TSC-O125", call.node().target + ": its function calls " + *target,
                "combine elements, or use scan");
  if (!loop.length.is_integer())
    call.refuse("TSC-O125",
                call.node().target + " over '" + symbolic::print(loop.length) +
                    "' slices, a number is needed",
                "make this value static when exporting");
  const int64_t length = loop.length.value();
  Arguments values = xs;
  const auto part = [&](const Argument &x, int64_t from, int64_t to) {
    return builder.call("aten.slice.Tensor", {x, 0, from, to, 1});
  };
  for (int64_t apart = 1; apart < length; apart *= 2) {
    std::vector<BatchedValue> inputs;
    for (const Argument &each : values)
      inputs.push_back({part(each, 0, length - apart), true});
    for (const Argument &each : values)
      inputs.push_back({part(each, apart, length), true});
    for (const Argument &each : others)
      inputs.push_back({each, false});
    const std::vector<Expr> batch = {Expr(length - apart)};
    const std::vector<BatchedValue> combined = batched(builder, loop.body, inputs, batch);
    for (size_t k = 0; k < values.size(); ++k) {
      const TensorMeta meta = builder.meta(xs[k]);
      const Argument rest = expanded_to_batch(builder, combined[k], meta.layout.rank() - 1, batch);
      values[k] = builder.call("aten.cat.default", {Arguments{part(values[k], 0, apart), rest}, 0});
    }
  }
  for (Argument &each : values) // results have memory of their own
    each = builder.call("aten.clone.default", {each});
  return values;
}

/// What the file says, or what the rows of results are.
ShapeRule recorded(std::string_view graph, std::string_view first) {
  return [graph, first](const Call &call) -> Value {
    const std::optional<Value> &value = call.node().value;
    if (value && value->list())
      return *value;
    const Arguments &xs = list_of(call, "xs");
    Graph body = subgraph_of(call, graph);
    body.symbols = call.graph().symbols;
    body = with_values(std::move(body));
    const Argument &yielded = body.nodes.back().args.at(0);
    const size_t carried = first.empty() ? 0 : list_of(call, first).size();
    const TensorMeta *sliced =
        !xs.empty() && xs[0].node() && call.graph().node(xs[0].node()->id).value
            ? call.graph().node(xs[0].node()->id).value->tensor()
            : nullptr;
    Value::List values;
    for (const Argument &each : yielded.list() ? *yielded.list() : Arguments{yielded}) {
      const std::optional<Value> none;
      const std::optional<Value> &own = each.node() ? body.node(each.node()->id).value : none;
      if (!own || !own->tensor() || !sliced || sliced->layout.sizes.empty())
        call.refuse("TSC-O125", call.node().target + ": a subgraph yields something not a tensor",
                    "make it a tensor: torch.tensor(number)");
      std::vector<Expr> sizes = own->tensor()->layout.sizes;
      if (values.size() >= carried)
        sizes.insert(sizes.begin(), sliced->layout.sizes[0]);
      values.push_back(contiguous_value(own->tensor()->dtype, sizes, own->tensor()->device));
    }
    return Value{std::move(values)};
  };
}

} // namespace

void add_slice_loops(Table &table) {
  table.add("higher_order::scan(Any combine, Any init, Any xs, Any additional=[]) -> Any")
      .shape(recorded("combine", "init"))
      .decompose(scan);
  for (const std::string_view name : {"map_impl", "map"})
    table
        .add(keep_text("higher_order::" + std::string(name) +
                       "(Any body, Any xs, Any others=[]) -> Any"))
        .shape(recorded("body", ""))
        .decompose(map);
  table.add("higher_order::associative_scan(Any combine, Any xs, Any additional=[]) -> Any")
      .shape(recorded("combine", ""))
      .decompose(associative_scan);
}

} // namespace tsc::ops
