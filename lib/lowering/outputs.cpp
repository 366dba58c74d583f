#include "lowering/outputs.h"

#include "ir/body.h"
#include "lowering/build.h"
#include "lowering/in_place.h"
#include "lowering/realize.h"
#include "lowering/views.h"
#include "ops/table/complex_calls.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <map>

namespace tsc::lowering {

namespace {

bool is_mutation(graph::OutputKind kind) {
  return kind == graph::OutputKind::buffer_mutation || kind == graph::OutputKind::input_mutation ||
         kind == graph::OutputKind::parameter_mutation;
}

/// The input that an output writes back to.
std::optional<BufferId> mutated_input(const Context &context, const graph::OutputSpec &output) {
  for (size_t i = 0; i < context.module.inputs.size(); ++i) {
    const graph::InputSpec &spec = context.module.input_specs[i];
    const bool by_name = output.kind == graph::OutputKind::input_mutation;
    const std::string &name = by_name ? context.graph.node(spec.node).name : spec.target;
    if (name == output.target)
      return context.module.inputs[i];
  }
  return std::nullopt;
}

TensorValue *tensor_of_output(Context &context, const graph::Argument &argument) {
  const graph::NodeRef *node = argument.node();
  return node ? std::get_if<TensorValue>(&context.values[node->id]) : nullptr;
}

/// True if `value` is exactly the memory of `input`, as it is after all updates in place.
bool is_unchanged(const Context &context, const TensorValue &value, BufferId input) {
  const ir::Buffer &buffer = context.module.buffer(input);
  const bool whole =
      value.layout ? *value.layout == buffer.layout && value.dtype == buffer.dtype : !value.index;
  return whole && value.storage->realized() &&
         value.storage->buffer == present_buffer(context, input);
}

/// True if evaluating `value` in place of `target` would read what a mutation has overwritten, its
/// own or another's.
bool reads_mutated(Context &context, const TensorValue &value, BufferId target,
                   const std::vector<BufferId> &mutated) {
  if (value.storage->loop == kNone)
    return false; // a buffer: see the caller
  const ir::LoopBody body = ir::trace_value(context.module, value.storage->loop);
  const Layout &layout = context.module.buffer(target).layout;
  std::vector<Expr> index = identity_index(layout.rank());
  for (size_t k = 0; k < index.size(); ++k)
    index[k] = layout.sizes[k].is_integer(1) ? Expr(0) : index[k];
  const Expr own = layout.linear_index(index);
  return std::any_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
    if (op.op != Op::load)
      return false;
    const BufferId memory = context.module.storage_of(op.buffer);
    return std::find(mutated.begin(), mutated.end(), memory) != mutated.end() &&
           (memory != target || body.indices[op.index] != own);
  });
}

/// Memory that is an input which some mutation overwrites must be copied before.
void protect(Context &context, TensorValue &value, const std::vector<BufferId> &mutated) {
  if (value.storage->realized() &&
      std::find(mutated.begin(), mutated.end(), context.module.storage_of(value.storage->buffer)) !=
          mutated.end())
    value = copy(context, value);
}

ir::BufferView output_view(Context &context, TensorValue &value, const graph::TensorMeta &said) {
  const graph::TensorMeta meta = ops::memory_of(said);
  if (is_dense(meta.layout.sizes, meta.layout.strides))
    return require_strides(context, value, meta.layout.strides);
  return realized_view(context, value);
}

/// Whether a value that lies in an input's memory was asked for as a copy of it: a kernel writes it
/// then, alone or with its neighbours, where else the engine would copy memory after all else.
bool is_copy_of_input(const Context &context, const graph::Node &output, const TensorValue &value) {
  if (!value.storage->realized() ||
      context.module.buffer(value.storage->buffer).role == ir::Buffer::Role::computed)
    return false;
  const graph::Node *node = &output;
  while (node->target != "aten.clone.default") {
    const graph::NodeRef *from = node->args.empty() ? nullptr : node->args[0].node();
    if (node->kind != graph::NodeKind::call_function || from == nullptr)
      return false;
    node = &context.graph.node(from->id);
  }
  return true;
}

ir::Output plain_output(Context &context, const graph::OutputSpec &spec) {
  ir::Output output;
  output.kind = spec.kind;
  output.target = spec.target;
  output.value = graph::None{};
  const graph::Argument &argument = spec.value;
  if (const graph::NodeRef *node = argument.node()) {
    NodeValue &value = context.values[node->id];
    if (TensorValue *tensor = std::get_if<TensorValue>(&value)) {
      context.current = node->id;
      const graph::Node &named = context.graph.node(node->id);
      if (is_copy_of_input(context, named, *tensor))
        *tensor = copy(context, *tensor);
      output.value = output_view(context, *tensor, *named.value->tensor());
    } else if (const Expr *expr = std::get_if<Expr>(&value)) {
      output.value = *expr;
    } else if (const double *number = std::get_if<double>(&value)) {
      output.value = *number;
    } else if (const bool *flag = std::get_if<bool>(&value)) {
      output.value = *flag;
    }
  } else if (const Expr *expr = std::get_if<Expr>(&argument.value)) {
    output.value = *expr;
  } else if (const int64_t *integer = std::get_if<int64_t>(&argument.value)) {
    output.value = Expr(*integer);
  } else if (const double *number = std::get_if<double>(&argument.value)) {
    output.value = *number;
  } else if (const bool *flag = std::get_if<bool>(&argument.value)) {
    output.value = *flag;
  }
  return output;
}

/// An integer that sizes or the data decide is a tensor of rank 0: nobody else would say what it
/// is.
void compute_number(Context &context, ir::Output &output) {
  const Expr *expr = std::get_if<Expr>(&output.value);
  if (expr == nullptr || expr->is_integer())
    return;
  TensorValue number = tensor_of(context, index_operand(context, *expr, DType::i64, {}).node);
  output.value = realized_view(context, number);
}

/// Stores `value` into the memory of `target`.
ir::BufferView write_back(Context &context, const TensorValue &value, BufferId target) {
  ir::BufferView view;
  view.dtype = context.module.buffer(target).dtype;
  view.buffer = present_buffer(context, target);
  if (!is_unchanged(context, value, target)) {
    const TensorValue converted = convert(context, value, view.dtype);
    ir::Pointwise store;
    store.value = operand_of(context, converted);
    view.buffer = mutate(context, view.buffer, std::move(store));
    if (!value.storage->realized())
      context.module.operations.back().list = value.storage->list;
  }
  view.layout = context.module.buffer(view.buffer).layout;
  return view;
}

} // namespace

void lower_outputs(Context &context) {
  const std::vector<graph::OutputSpec> &specs = context.graph.outputs;
  std::vector<std::optional<BufferId>> targets(specs.size());
  std::vector<BufferId> mutated;
  for (size_t i = 0; i < specs.size(); ++i) {
    const TensorValue *value = tensor_of_output(context, specs[i].value);
    if (!is_mutation(specs[i].kind) || value == nullptr)
      continue;
    targets[i] = mutated_input(context, specs[i]);
    if (!targets[i])
      throw support::InternalError("lowering", specs[i].target, "no input of this name is mutated");
    if (!is_unchanged(context, *value, *targets[i]))
      mutated.push_back(*targets[i]);
  }
  context.module.outputs.resize(specs.size());
  for (size_t i = 0; i < specs.size(); ++i) { // what mutations must not disturb
    TensorValue *value = tensor_of_output(context, specs[i].value);
    if (value != nullptr)
      context.current = specs[i].value.node()->id;
    if (targets[i]) {
      const bool realized = value->storage->realized();
      const bool own = realized && context.module.storage_of(value->storage->buffer) == *targets[i];
      if (is_unchanged(context, *value, *targets[i]))
        continue;
      if ((realized && !own) || (value->is_view() && own))
        protect(context, *value, mutated);
      else if (!value->storage->realized() &&
               (value->is_view() || reads_mutated(context, *value, *targets[i], mutated)))
        realize(context, *value->storage);
    } else {
      if (value != nullptr)
        protect(context, *value, mutated);
      context.module.outputs[i] = plain_output(context, specs[i]);
      compute_number(context, context.module.outputs[i]);
    }
  }
  for (size_t i = 0; i < specs.size(); ++i) {
    if (targets[i]) {
      TensorValue *value = tensor_of_output(context, specs[i].value);
      context.current = specs[i].value.node()->id;
      context.module.outputs[i] = {write_back(context, *value, *targets[i]), specs[i].kind,
                                   specs[i].target};
    }
  }
}

void lower_results(Context &context, const std::vector<graph::TensorMeta> &results) {
  std::vector<BufferId> given;
  for (size_t i = 0; i < results.size(); ++i) {
    const graph::OutputSpec &spec = context.graph.outputs.at(i);
    context.current = spec.value.node()->id;
    TensorValue value = convert(context, *tensor_of_output(context, spec.value), results[i].dtype);
    if (value.sizes.size() != results[i].layout.sizes.size()) // one element
      value = reshape(context, value, results[i].layout.sizes);
    bool own = !value.is_view();
    if (own) {
      const BufferId buffer = realize(context, *value.storage);
      own = context.module.buffer(buffer).role == ir::Buffer::Role::computed &&
            context.module.storage_of(buffer) == buffer &&
            std::find(given.begin(), given.end(), buffer) == given.end();
    }
    if (!own)
      value = copy(context, value);
    ir::Output output;
    output.value = require_strides(context, value, results[i].layout.strides);
    given.push_back(std::get<ir::BufferView>(output.value).buffer);
    context.module.outputs.push_back(std::move(output));
  }
}

} // namespace tsc::lowering
