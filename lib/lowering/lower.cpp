#include "lowering/lower.h"
#include "ir/body.h"

#include "graph/data_symbols.h"
#include "lowering/build.h"
#include "lowering/combine_scans.h"
#include "lowering/concatenation.h"
#include "lowering/context.h"
#include "lowering/data_numbers.h"
#include "lowering/in_place.h"
#include "lowering/outputs.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "lowering/weights.h"
#include "ops/table/complex_calls.h"
#include "ops/table/source_line.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <optional>
#include <set>

namespace tsc::lowering {

namespace {

std::vector<std::vector<graph::NodeId>> users_of(const graph::Graph &graph) {
  std::vector<std::vector<graph::NodeId>> users(graph.nodes.size());
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    const auto add = [&](graph::NodeRef used) {
      std::vector<graph::NodeId> &list = users[used.id];
      if (list.empty() || list.back() != id)
        list.push_back(id);
    };
    for (const graph::Argument &argument : graph.nodes[id].args)
      graph::for_each_node(argument, add);
    for (const auto &[name, argument] : graph.nodes[id].kwargs)
      graph::for_each_node(argument, add);
  }
  return users;
}

/// What lowering refused, and whether all of it is well-formed.
struct Refusals {
  std::vector<support::Diagnostic> problems;
  support::ExitCode exit_code = support::ExitCode::unsupported;

  /// Places are the user's: the first node that `node` came from.
  void add(const support::UserError &error, const graph::Node &node) {
    for (support::Diagnostic problem : error.diagnostics()) {
      problem.node = node.origins.empty() ? node.name : node.origins.front();
      problems.push_back(std::move(problem));
    }
    if (error.exit_code() != support::ExitCode::unsupported)
      exit_code = error.exit_code();
  }
};

/// The last line of a stack trace that is not blank: the user's code.
std::string source_line_of(const std::string &stack_trace) {
  const std::vector<std::string> lines = support::split(stack_trace, '\n');
  for (size_t i = lines.size(); i-- > 0;) {
    const size_t first = lines[i].find_first_not_of(" \t");
    if (first != std::string::npos)
      return lines[i].substr(first);
  }
  return "";
}

std::vector<ir::Origin> origins_of(const graph::Graph &graph) {
  std::vector<ir::Origin> origins;
  for (const graph::Node &node : graph.nodes) {
    ir::Origin origin;
    origin.node = node.origins.empty() ? node.name : support::join(node.origins, "+");
    origin.target = node.target;
    origin.source_line = source_line_of(node.stack_trace);
    origins.push_back(std::move(origin));
  }
  return origins;
}

BufferId add_named_buffer(Context &context, const graph::Node &node,
                          const graph::TensorMeta &value_meta, ir::Buffer::Role role,
                          std::string weight) {
  const graph::TensorMeta meta = ops::memory_of(value_meta);
  ir::Buffer buffer;
  buffer.name = node.name;
  buffer.dtype = meta.dtype;
  buffer.device = meta.device;
  buffer.layout = meta.layout;
  buffer.role = role;
  buffer.weight = std::move(weight);
  context.module.buffers.push_back(std::move(buffer));
  return static_cast<BufferId>(context.module.buffers.size() - 1);
}

graph::InputSpec spec_of_input(const Context &context) {
  graph::InputSpec known;
  const auto spec = context.input_specs.find(context.current);
  if (spec != context.input_specs.end())
    known = *spec->second;
  known.node = context.current;
  return known;
}

/// An integer of the caller: it has a place among the inputs, and binds symbols.
void add_scalar_input(Context &context, const graph::Node &node, Expr value) {
  graph::TensorMeta meta;
  meta.dtype = DType::i64;
  const BufferId buffer = add_named_buffer(context, node, meta, ir::Buffer::Role::input, "");
  context.module.buffers[buffer].scalar = value;
  context.module.inputs.push_back(buffer);
  context.module.input_specs.push_back(spec_of_input(context));
}

NodeValue lower_placeholder(Context &context, const graph::Node &node) {
  const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
  if (meta == nullptr) {
    const Expr *expr = node.value ? std::get_if<Expr>(&node.value->value) : nullptr;
    if (expr == nullptr)
      return graph::None{};
    if (!expr->is_integer())
      add_scalar_input(context, node, *expr);
    return *expr;
  }
  graph::InputSpec known = spec_of_input(context);
  const BufferId buffer =
      add_named_buffer(context, node, *meta, ir::Buffer::Role::input, known.target);
  context.input_memory[context.current] = {buffer, {context.current}};
  context.module.inputs.push_back(buffer);
  context.module.input_specs.push_back(std::move(known));
  return tensor_of_buffer(context, buffer);
}

NodeValue lower_get_attr(Context &context, const graph::Node &node) {
  const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
  if (meta == nullptr)
    return graph::None{}; // a subgraph
  return tensor_of_buffer(
      context, add_named_buffer(context, node, *meta, ir::Buffer::Role::constant, node.target));
}

bool depends_on_poison(const Context &context, const graph::Node &node) {
  bool poisoned = false;
  const auto visit = [&](graph::NodeRef used) {
    poisoned = poisoned || std::holds_alternative<Poison>(context.values[used.id]);
  };
  for (const graph::Argument &argument : node.args)
    graph::for_each_node(argument, visit);
  for (const auto &[name, argument] : node.kwargs)
    graph::for_each_node(argument, visit);
  return poisoned;
}

[[noreturn]] void refuse(const graph::Node &node) {
  support::Diagnostic diagnostic;
  diagnostic.code = "TSC-O060";
  diagnostic.message = "operator " + node.target + " has no lowering";
  diagnostic.node = node.name;
  diagnostic.source_line = ops::source_line(node);
  diagnostic.next_step = "see docs/operators.md for the operators that tsc compiles";
  throw support::UserError(support::ExitCode::unsupported, diagnostic);
}

/// Kernels compute with these; what others hold can only be passed on as it is.
bool is_computable(tensor::DType dtype) { return !tensor::is_complex(dtype); }

/// Refuses what a kernel cannot compute with: the result's dtype, or an argument's.
void check_dtypes(const Context &context, const ops::Call &call) {
  const auto check = [&](const graph::Value &value, const auto &check_again) -> void {
    if (const graph::Value::List *list = value.list())
      for (const graph::Value &item : *list)
        check_again(item, check_again);
    const graph::TensorMeta *meta = value.tensor();
    if (meta == nullptr || is_computable(meta->dtype))
      return;
    support::Diagnostic diagnostic;
    diagnostic.code = "TSC-K001";
    diagnostic.message =
        "kernels cannot compute with " + std::string(tensor::torch_name(meta->dtype));
    diagnostic.node = call.node().name;
    diagnostic.source_line = ops::source_line(call.node());
    diagnostic.next_step = "convert the tensor to a float or integer type outside of the graph";
    throw support::UserError(support::ExitCode::unsupported, diagnostic);
  };
  const auto check_node = [&](graph::NodeRef used) {
    if (context.graph.node(used.id).value) {
      check(*context.graph.node(used.id).value, check);
    }
  };
  for (const graph::Argument &argument : call.node().args)
    graph::for_each_node(argument, check_node);
  for (const auto &[name, argument] : call.node().kwargs)
    graph::for_each_node(argument, check_node);
  if (call.node().value)
    check(*call.node().value, check);
}

/// Memory is planned before data is known.
void check_sizes(const ops::Call &call) {
  const graph::TensorMeta *meta = call.node().value ? call.node().value->tensor() : nullptr;
  if (meta == nullptr ||
      std::none_of(meta->layout.sizes.begin(), meta->layout.sizes.end(), graph::depends_on_data))
    return;
  call.refuse("TSC-O004", call.node().target + ": the result's size depends on data",
              "keep the size of the tensor and mask what does not count (torch.where)");
}

/// What lowering computed must be what the graph says: the same dtype and the same sizes.
void check_value(const graph::Node &node, const NodeValue &value) {
  const auto *tensor = std::get_if<TensorValue>(&value);
  const graph::TensorMeta *said = node.value ? node.value->tensor() : nullptr;
  if (tensor == nullptr || said == nullptr)
    return;
  const graph::TensorMeta meta = ops::memory_of(*said);
  if (tensor->dtype != meta.dtype || tensor->sizes != meta.layout.sizes) {
    std::string sizes;
    for (Expr size : tensor->sizes)
      sizes += " " + symbolic::print(size);
    throw support::InternalError("lowering", node.name,
                                 node.target + " was lowered to " +
                                     std::string(tensor::torch_name(tensor->dtype)) + " of sizes" +
                                     sizes + ", the graph says otherwise");
  }
}

NodeValue lower_call(Context &context, const graph::Node &node) {
  const ops::Operator *op = ops::find_operator(node.target);
  if (op == nullptr)
    refuse(node);
  const auto lowering = registry().find(op->lowering);
  if (lowering == registry().end())
    refuse(node);
  const ops::Call call(context.graph, node, op->schema, context.ranges);
  if (op->lowering != "view_as_real" && op->lowering != "view_as_complex") // the same memory
    check_dtypes(context, call);
  check_sizes(call);
  return lowering->second(context, call);
}

/// The list operator of which the node yields an element, as a position in Module::lists.
std::optional<uint32_t> list_of(const Context &context, graph::NodeId id) {
  const std::vector<std::string> &lists = context.module.lists;
  const std::string &name = context.graph.node(id).list;
  const auto found = name.empty() ? lists.end() : std::find(lists.begin(), lists.end(), name);
  return found == lists.end() ? std::nullopt
                              : std::optional(static_cast<uint32_t>(found - lists.begin()));
}

/// The list operators of the graph, and which of them are computed where they stand: those with an
/// element that the graph returns, or that something else than a list operator reads. Others become
/// a part of the list operators that read them.
void find_lists(Context &context) {
  std::set<std::string> lists;
  for (const graph::Node &node : context.graph.nodes)
    if (!node.list.empty() && lists.insert(node.list).second)
      context.module.lists.push_back(node.list);
  context.realized_lists.assign(context.module.lists.size(), false);
  const auto is_of_list = [&](graph::NodeId id) {
    const std::vector<std::string> &origins = context.graph.node(id).origins;
    return context.graph.node(id).kind != graph::NodeKind::call_function ||
           std::any_of(origins.begin(), origins.end(),
                       [&](const std::string &origin) { return lists.count(origin) != 0; });
  };
  for (graph::NodeId id = 0; id < context.graph.nodes.size(); ++id) {
    const std::optional<uint32_t> list = list_of(context, id);
    const auto &users = context.users[id];
    if (list && (context.returned[id] || !std::all_of(users.begin(), users.end(), is_of_list)))
      context.realized_lists[*list] = true;
  }
}

/// An element of what a list operator yields keeps together with the others.
void mark_element(Context &context, TensorValue &value) {
  const std::optional<uint32_t> list = list_of(context, context.current);
  if (!list || value.is_view())
    return;
  Storage &storage = *value.storage;
  if (!storage.realized()) {
    storage.list = *list;
    if (context.policy.foreach_lists && context.realized_lists[*list])
      realize(context, storage);
    return;
  }
  const ir::OperationId id = context.module.buffer(storage.buffer).operation;
  if (id != kNone &&
      context.module.operations[id].origins == std::vector<uint32_t>{context.current})
    context.module.operations[id].list = *list;
}

/// What a function reads that is computed for every score, or every pair of tuples, is in memory;
/// what is there is widened where it is read.
void realize_for_functions(Context &context, TensorValue &value) {
  Storage &storage = *value.storage;
  const std::vector<graph::NodeId> &users = context.users[context.current];
  if (storage.realized() || std::none_of(users.begin(), users.end(), [&](graph::NodeId user) {
        return context.combine_values[user];
      }))
    return;
  const ir::LoopBody body = ir::trace_value(context.module, storage.loop);
  const auto is = [&](auto... kinds) {
    return [=](const ir::BodyOp &op) { return ((op.op == kinds) || ...); };
  };
  if (std::any_of(body.ops.begin(), body.ops.end(), is(Op::load)) &&
      !std::all_of(body.ops.begin(), body.ops.end(), is(Op::load, Op::to_dtype)))
    realize(context, storage);
}

/// Values that leave the graph lie in memory as the graph says.
void settle(Context &context, const graph::Node &node, NodeValue &value) {
  auto *tensor = std::get_if<TensorValue>(&value);
  if (tensor == nullptr || context.combine_values[context.current])
    return;
  mark_element(context, *tensor);
  realize_by_policy(context, *tensor);
  realize_for_functions(context, *tensor);
  if (context.policy.compute_weights_ahead)
    realize_ahead(context, *tensor);
  const auto &users = context.users[context.current];
  const bool strided = std::any_of(users.begin(), users.end(), [&](graph::NodeId user) {
    return context.graph.node(user).target == "aten.as_strided.default";
  });
  const graph::TensorMeta *said = node.value ? node.value->tensor() : nullptr;
  if ((!strided && !context.returned[context.current]) || said == nullptr)
    return;
  const graph::TensorMeta meta = ops::memory_of(*said);
  if (is_dense(meta.layout.sizes, meta.layout.strides))
    require_strides(context, *tensor, meta.layout.strides);
}

/// A tensor out of nowhere for what could not be lowered, so that its users are looked at as well:
/// nobody will see the module.
NodeValue stand_in(Context &context, const graph::Node &node, const graph::Value &value) {
  if (const graph::TensorMeta *meta = value.tensor()) {
    return tensor_of_buffer(context,
                            add_named_buffer(context, node, *meta, ir::Buffer::Role::input, ""));
  }
  const graph::Value::List *list = value.list();
  if (list == nullptr)
    return Poison{};
  std::vector<TensorValue> items;
  for (const graph::Value &item : *list) {
    NodeValue one = stand_in(context, node, item);
    if (!std::holds_alternative<TensorValue>(one))
      return Poison{};
    items.push_back(std::get<TensorValue>(std::move(one)));
  }
  return items;
}

void lower_node(Context &context, Refusals &refusals) {
  const graph::Node &node = context.graph.node(context.current);
  NodeValue &value = context.values[context.current];
  switch (node.kind) {
  case graph::NodeKind::placeholder:
    value = lower_placeholder(context, node);
    return;
  case graph::NodeKind::get_attr:
    value = lower_get_attr(context, node);
    return;
  case graph::NodeKind::output:
    if (refusals.problems.empty() && context.results != nullptr) {
      lower_results(context, *context.results);
    } else if (refusals.problems.empty()) {
      lower_outputs(context);
      lower_set_inputs(context);
    }
    return;
  case graph::NodeKind::call_function:
    break;
  }
  if (depends_on_poison(context, node))
    return; // reported where it broke
  try {
    value = lower_call(context, node);
    check_value(node, value);
    settle(context, node, value);
  } catch (const support::UserError &error) {
    value = node.value ? stand_in(context, node, *node.value) : NodeValue{Poison{}};
    refusals.add(error, node);
  }
}

/// Every graph node whose computation an operation holds.
void gather_origins(ir::Module &module, ir::Operation &operation, std::vector<uint32_t> &visited,
                    uint32_t mark) {
  std::vector<LoopId> stack;
  const auto push = [&](const Operand &operand) {
    if (operand.node != kNone && visited[operand.node] != mark) {
      visited[operand.node] = mark;
      stack.push_back(operand.node);
    }
  };
  if (const auto *pointwise = std::get_if<ir::Pointwise>(&operation.kind)) {
    push(pointwise->value);
  } else if (const auto *scatter = std::get_if<ir::Scatter>(&operation.kind)) {
    push(scatter->value);
    std::for_each(scatter->indices.begin(), scatter->indices.end(), push);
  } else if (const auto *reduction = std::get_if<ir::Reduction>(&operation.kind)) {
    std::for_each(reduction->inputs.begin(), reduction->inputs.end(), push);
  } else if (const auto *scan = std::get_if<ir::Scan>(&operation.kind)) {
    std::for_each(scan->inputs.begin(), scan->inputs.end(), push);
    std::for_each(scan->combined.begin(), scan->combined.end(), push);
  } else if (const auto *sort = std::get_if<ir::Sort>(&operation.kind)) {
    push(sort->input);
  }
  std::set<uint32_t> origins(operation.origins.begin(), operation.origins.end());
  while (!stack.empty()) {
    const LoopNode &node = module.loops[stack.back()];
    stack.pop_back();
    origins.insert(node.origins.begin(), node.origins.end());
    std::for_each(node.operands.begin(), node.operands.end(), push);
  }
  operation.origins.assign(origins.begin(), origins.end());
}

/// Where a program of this graph runs.
tensor::Device device_of(const graph::Graph &graph) {
  std::optional<tensor::Device> first;
  for (const graph::Node &node : graph.nodes) {
    const graph::TensorMeta *meta = node.value ? node.value->tensor() : nullptr;
    if (meta != nullptr && meta->device.type == tensor::DeviceType::cuda)
      return meta->device;
    if (meta != nullptr && !first)
      first = meta->device;
  }
  return first.value_or(tensor::Device{});
}

} // namespace

Context::Context(const graph::Graph &graph, const LoweringOptions &options)
    : graph(graph), policy(*options.policy), target(options.target), device(device_of(graph)),
      results(options.results), ranges(std::make_shared<const symbolic::Ranges>(graph.ranges())),
      values(graph.nodes.size()), users(users_of(graph)), returned(graph.nodes.size(), false) {
  for (const graph::InputSpec &spec : graph.inputs)
    input_specs.emplace(spec.node, &spec);
  for (const graph::OutputSpec &output : graph.outputs) {
    const graph::NodeRef *node = output.value.node();
    if (output.kind == graph::OutputKind::user && node != nullptr)
      returned[node->id] = true;
  }
  combine_values = find_combine_values(graph);
  if (policy.compute_weights_ahead)
    weight_values = find_weight_values(graph);
  module.origins = origins_of(graph);
  module.ranges = *ranges;
  module.symbols = graph.symbols;
}

ir::Module lower(const graph::Graph &graph, const LoweringOptions &options) {
  Context context(graph, options);
  Refusals refusals;
  context.in_place_operators = ops::has_ordered_operators(graph);
  plan_in_place(context);
  plan_slices(context);
  find_lists(context);
  for (graph::NodeId id = 0; id < graph.nodes.size(); ++id) {
    context.current = id;
    lower_node(context, refusals);
  }
  if (!refusals.problems.empty())
    throw support::UserError(refusals.exit_code, std::move(refusals.problems));
  for (const graph::EqualSizes &sizes : graph.equal_sizes)
    assume_equal(context, sizes);
  check_groups(context.module);
  resolve_data_numbers(context);
  context.module.assertions = graph.assertions;
  for (BufferId id = 0; id < context.module.buffers.size(); ++id)
    decide_layout(context, id);
  std::vector<uint32_t> visited(context.module.loops.size(), 0);
  uint32_t mark = 0;
  for (ir::Operation &operation : context.module.operations)
    gather_origins(context.module, operation, visited, ++mark);
  return std::move(context.module);
}

} // namespace tsc::lowering
