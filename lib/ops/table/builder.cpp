#include "ops/table/builder.h"

#include "ops/table/complex_calls.h"
#include "ops/table/float8_calls.h"
#include "ops/table/requirements.h"

#include "ops/table/source_line.h"
#include "ops/table/varying_dtypes.h"

namespace tsc::ops {

Argument size_argument(Expr size) {
  if (size.is_integer())
    return size.value();
  return size;
}

Argument sizes_argument(const std::vector<Expr> &sizes) {
  Arguments list;
  for (Expr size : sizes)
    list.push_back(size_argument(size));
  return list;
}

Argument ints_argument(const std::vector<size_t> &values) {
  Arguments list;
  for (size_t value : values)
    list.push_back(static_cast<int64_t>(value));
  return list;
}

GraphBuilder::GraphBuilder(Graph &graph, std::shared_ptr<const symbolic::Ranges> ranges,
                           std::unordered_set<std::string_view> composites)
    : graph_(&graph), ranges_(std::move(ranges)), composites_(std::move(composites)) {
  for (const Node &node : graph.nodes)
    names_.insert(node.name);
}

std::string GraphBuilder::fresh_name(std::string_view target) {
  // "aten.exp.default" -> "exp", "operator.getitem" -> "getitem"
  size_t first = target.find('.');
  std::string base(first == std::string_view::npos ? target : target.substr(first + 1));
  base = base.substr(0, base.find('.'));
  size_t &suffix = next_suffix_[base];
  while (true) {
    std::string name = suffix == 0 ? base : base + "_" + std::to_string(suffix);
    ++suffix;
    if (names_.count(name) == 0)
      return name;
  }
}

graph::NodeId GraphBuilder::append(Node node) {
  names_.insert(node.name);
  graph_->nodes.push_back(std::move(node));
  return static_cast<graph::NodeId>(graph_->nodes.size() - 1);
}

void GraphBuilder::set_source(const Node &node) {
  source_.emplace();
  source_->name = node.name;
  source_->target = node.target;
  source_->stack_trace = node.stack_trace;
  source_->nn_module_stack = node.nn_module_stack;
  source_->origins = node.origins;
}

TensorMeta GraphBuilder::meta(const Argument &argument) const {
  const graph::NodeRef *reference = argument.node();
  if (!reference || !graph_->node(reference->id).value ||
      !graph_->node(reference->id).value->tensor()) {
    support::require(source_.has_value(), "ops",
                     "a decomposition takes the meta of something that is not a tensor");
    throw support::UserError(support::ExitCode::bad_input,
                             {"TSC-O014", source_->target + ": an argument is not a tensor", "", "",
                              users_name(*source_), source_line(*source_), "pass a tensor"});
  }
  return *graph_->node(reference->id).value->tensor();
}

Argument GraphBuilder::emit_named(std::string name, std::string_view target, Arguments args,
                                  Keywords kwargs) {
  Node node;
  node.name = std::move(name);
  node.kind = graph::NodeKind::call_function;
  node.target = std::string(target);
  node.args = std::move(args);
  node.kwargs = std::move(kwargs);
  if (source_) {
    node.stack_trace = source_->stack_trace;
    node.nn_module_stack = source_->nn_module_stack;
    node.origins = source_->origins;
  }
  try {
    node.value = infer_value(*graph_, node, ranges_, equal_sizes_);
  } catch (const support::UserError &error) {
    throw_for_source(error);
  }
  return graph::NodeRef{append(std::move(node))};
}

void GraphBuilder::throw_for_source(const support::UserError &error) const {
  if (!source_)
    throw error;
  std::vector<support::Diagnostic> diagnostics = error.diagnostics();
  const Operator *row = find_operator(source_->target);
  // What a write leads to is said by functionalization.
  bool decomposed = row != nullptr && row->effect != Effect::mutates;
  for (support::Diagnostic &diagnostic : diagnostics) {
    diagnostic.node = users_name(*source_);
    diagnostic.source_line = source_line(*source_);
    std::string operation = source_->target.substr(0, source_->target.rfind('.'));
    if (decomposed && diagnostic.message.find(operation) == std::string::npos)
      diagnostic.message += " (in the decomposition of " + source_->target + ")";
  }
  throw support::UserError(error.exit_code(), std::move(diagnostics));
}

std::string GraphBuilder::add_subgraph(const std::string &name, Graph subgraph) {
  std::string unique = name;
  for (size_t i = 1; graph_->subgraphs.count(unique) != 0; ++i)
    unique = name + "_" + std::to_string(i);
  subgraph.name = unique;
  graph_->subgraphs.emplace(unique, std::move(subgraph));
  return unique;
}

Argument GraphBuilder::emit(std::string_view target, Arguments args, Keywords kwargs) {
  std::string name = fresh_name(target);
  return emit_named(std::move(name), target, std::move(args), std::move(kwargs));
}

Argument GraphBuilder::keep(const Call &call, Arguments args) {
  const Node &node = call.node();
  std::string name = node.name.empty() ? fresh_name(node.target) : node.name;
  return emit_named(std::move(name), node.target, std::move(args), {});
}

Argument GraphBuilder::keep(const Call &call) {
  const Node &node = call.node();
  std::string name = node.name.empty() ? fresh_name(node.target) : node.name;
  return emit_named(std::move(name), node.target, node.args, node.kwargs);
}

Argument GraphBuilder::call(std::string_view target, Arguments args, Keywords kwargs) {
  const Operator *row = find_operator(target);
  if (row == nullptr)
    throw support::InternalError("ops", std::string(target), "no such operator");
  if (!row->decompose || composites_.count(row->name) != 0)
    return emit(target, std::move(args), std::move(kwargs));
  Node node; // without a name: keep() makes a fresh one
  node.target = std::string(target);
  node.args = std::move(args);
  node.kwargs = std::move(kwargs);
  if (source_) {
    node.stack_trace = source_->stack_trace;
    node.origins = source_->origins;
  }
  try {
    Call call(*graph_, node, row->schema, ranges_);
    call.note_equal_sizes(equal_sizes_);
    // A decomposition relies on what its row refuses, whoever calls it.
    check_requirements(call);
    check_complex(call, *row);
    check_float8(call, *row);
    if (row->shape)
      row->shape(call);
    return row->decompose(*this, call);
  } catch (const support::UserError &error) {
    throw_for_source(error);
  }
}

Argument GraphBuilder::item(const Argument &result, int64_t index) {
  if (const Arguments *list = result.list())
    return list->at(static_cast<size_t>(index));
  return emit("operator.getitem", {result, index});
}

void GraphBuilder::mark_element(const Argument &result) {
  if (source_)
    mark_element(result, source_->origins.empty() ? source_->name : source_->origins.front());
}

void GraphBuilder::mark_element(const Argument &result, const std::string &list) {
  const graph::NodeRef *reference = result.node();
  if (!reference)
    return;
  Node &node = graph_->nodes[reference->id];
  if (node.kind == graph::NodeKind::call_function && node.list.empty())
    node.list = list;
}

namespace {

/// The Value of what a decomposition returned.
Value value_of_result(const Graph &graph, const Argument &result) {
  if (const graph::NodeRef *reference = result.node())
    return *graph.node(reference->id).value;
  if (const Arguments *list = result.list()) {
    Value::List values;
    for (const Argument &item : *list)
      values.push_back(value_of_result(graph, item));
    return Value{std::move(values)};
  }
  if (const int64_t *value = std::get_if<int64_t>(&result.value))
    return Value{Expr(*value)};
  if (const Expr *value = std::get_if<Expr>(&result.value))
    return Value{*value};
  if (const double *value = std::get_if<double>(&result.value))
    return Value{*value};
  if (const bool *value = std::get_if<bool>(&result.value))
    return Value{*value};
  return Value{};
}

/// `value` with the dtypes of `recorded`, where both are floats: devices differ in their width.
void take_recorded_dtypes(Value &value, const Value &recorded) {
  if (TensorMeta *meta = std::get_if<TensorMeta>(&value.value)) {
    const TensorMeta *given = recorded.tensor();
    if (given && tensor::is_floating(given->dtype) && tensor::is_floating(meta->dtype))
      meta->dtype = given->dtype;
  } else if (Value::List *list = std::get_if<Value::List>(&value.value)) {
    const Value::List *given = recorded.list();
    for (size_t i = 0; given && given->size() == list->size() && i < list->size(); ++i)
      take_recorded_dtypes((*list)[i], (*given)[i]);
  }
}

} // namespace

DecomposedAlone decompose_alone(const Graph &graph, const Node &node, const Operator &row,
                                const std::shared_ptr<const symbolic::Ranges> &ranges,
                                SizePairs *equal_sizes, ArgumentStrides strides) {
  DecomposedAlone alone;
  Node copy;
  copy.name = node.name;
  copy.target = node.target;
  copy.args = node.args;
  copy.kwargs = node.kwargs;
  copy.value = node.value; // as recorded
  copy.stack_trace = node.stack_trace;
  copy.origins = node.origins;
  std::unordered_map<graph::NodeId, graph::NodeId> inputs;
  auto import = [&](Argument &argument) {
    graph::NodeRef *reference = std::get_if<graph::NodeRef>(&argument.value);
    if (!reference)
      return;
    auto inserted =
        inputs.emplace(reference->id, static_cast<graph::NodeId>(alone.graph.nodes.size()));
    if (inserted.second) {
      Node input;
      input.name = graph.node(reference->id).name;
      input.kind = graph::NodeKind::placeholder;
      input.value = graph.node(reference->id).value;
      const std::vector<Expr> &recorded = graph.node(reference->id).recorded_strides;
      if (strides == ArgumentStrides::recorded && !recorded.empty())
        std::get<TensorMeta>(input.value->value).layout.strides = recorded;
      alone.graph.nodes.push_back(std::move(input));
      alone.arguments.push_back(reference->id);
    }
    reference->id = inserted.first->second;
  };
  auto import_nested = [&](Argument &argument) {
    import(argument);
    if (Arguments *list = std::get_if<Arguments>(&argument.value))
      for (Argument &item : *list)
        import(item);
  };
  for (Argument &argument : copy.args)
    import_nested(argument);
  for (auto &keyword : copy.kwargs)
    import_nested(keyword.second);
  GraphBuilder builder(alone.graph, ranges);
  builder.set_source(copy);
  builder.note_equal_sizes(equal_sizes);
  Call call(alone.graph, copy, row.schema, ranges);
  call.note_equal_sizes(equal_sizes);
  alone.result = row.decompose(builder, call);
  return alone;
}

Value infer_value(const Graph &graph, const Node &node,
                  const std::shared_ptr<const symbolic::Ranges> &ranges, SizePairs *equal_sizes) {
  const Operator *row = find_operator(node.target);
  support::require(row != nullptr, "ops", "no operator " + node.target);
  Call call(graph, node, row->schema, ranges);
  call.note_equal_sizes(equal_sizes);
  check_requirements(call);
  check_complex(call, *row);
  check_float8(call, *row);
  if (row->shape) {
    Value value = row->shape(call);
    check_result(call, value);
    // Rules may hand an operand's meta on; what an operator of tensors yields is no number.
    if (TensorMeta *meta = std::get_if<TensorMeta>(&value.value); meta && !row->yields_number)
      meta->is_number = false;
    return value;
  }
  support::require(static_cast<bool>(row->decompose), "ops", node.target + " has no shape rule");
  const DecomposedAlone alone = decompose_alone(graph, node, *row, ranges, equal_sizes);
  Value value = value_of_result(alone.graph, alone.result);
  if (node.value && !why_dtypes_vary(row->name).empty())
    take_recorded_dtypes(value, *node.value);
  check_result(call, value);
  return value;
}

} // namespace tsc::ops
