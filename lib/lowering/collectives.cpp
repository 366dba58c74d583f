// Communication between ranks, and the copies and storages around it: calls that write memory in
// place.
//
// A call that writes memory has, besides its own output, one output for each buffer that it writes
// (Buffer::mutates, no layout). Later readers name the buffer as ever: the scheduler gives them the
// version that is current. So whatever has no memory yet and reads the old contents is computed
// before.
#include "lowering/build.h"
#include "lowering/in_place.h"
#include "lowering/outputs.h"
#include "lowering/realize.h"
#include "lowering/registry.h"
#include "ops/passes/functionalize.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <map>
#include <optional>

namespace tsc::lowering {

namespace {

using graph::NodeId;

bool is_used_later(const Context &context, NodeId node) {
  const std::vector<NodeId> &users = context.users[node];
  return !users.empty() && users.back() > context.current;
}

/// Calls `function` with each tensor of the node's value that has no memory yet.
template <class Function>
void for_each_pending(Context &context, NodeId node, const Function &function) {
  const auto visit = [&](TensorValue &value) {
    if (!value.storage->realized())
      function(value);
  };
  if (auto *tensor = std::get_if<TensorValue>(&context.values[node]))
    visit(*tensor);
  else if (auto *list = std::get_if<std::vector<TensorValue>>(&context.values[node]))
    std::for_each(list->begin(), list->end(), visit);
}

/// Computes now what has no memory yet, is used later, and reads `memory`, which is about to
/// change.
void compute_readers(Context &context, BufferId memory) {
  for (; context.pending_end < context.current; ++context.pending_end)
    context.pending.push_back(context.pending_end);
  const NodeId now = context.current;
  const auto settled = [&](NodeId node) {
    bool pending = false;
    if (is_used_later(context, node))
      for_each_pending(context, node, [&](TensorValue &value) {
        if (reads(context, value, memory)) {
          context.current = node;
          realize(context, *value.storage);
          context.current = now;
        } else {
          pending = true;
        }
      });
    return !pending;
  };
  context.pending.erase(std::remove_if(context.pending.begin(), context.pending.end(), settled),
                        context.pending.end());
}

/// `value` in memory, its elements in order and without gaps.
ir::BufferView in_order(Context &context, TensorValue value) {
  return require_strides(context, value, tensor::contiguous_strides(value.sizes));
}
ir::BufferView read_argument(Context &context, const ops::Call &call, std::string_view parameter) {
  return in_order(context, tensor_argument(context, call, parameter));
}

/// The memory of `value`, which is about to be written.
ir::BufferView written_view(Context &context, const ops::Call &call, const TensorValue &value) {
  const std::optional<ir::BufferView> view = strided_view(context, value);
  if (!view || !view->layout.is_contiguous()) {
    call.refuse("TSC-O119", "an argument that is written does not lie contiguous in memory",
                "write to a contiguous tensor, or to a contiguous part of one");
  }
  value.storage->loop = kNone; // from now on readers load
  compute_readers(context, context.module.storage_of(view->buffer));
  return *view;
}

BufferId add_output_without_tensor(Context &context, tensor::Device device) {
  const BufferId buffer = register_buffer(context, {}, DType::u8, device);
  context.module.buffers[buffer].layout_kind = ir::LayoutKind::none;
  return buffer;
}

/// Names the memory of `buffer` after it has been written.
BufferId add_version(Context &context, BufferId buffer) {
  const ir::Buffer before = context.module.buffer(buffer);
  const BufferId after = add_output_without_tensor(context, before.device);
  ir::Buffer &version = context.module.buffers[after];
  version.mutates = buffer;
  version.dtype = before.dtype;
  version.layout = before.layout;
  return after;
}

/// A call in the making: its outputs in the order in which they are numbered.
class CallBuilder {
public:
  CallBuilder(Context &context, ir::Library library, std::string kernel, std::string ir_class)
      : context_(context) {
    call_.library = library;
    call_.kernel = std::move(kernel);
    call_.ir_class = std::move(ir_class);
  }

  ir::Extern &call() { return call_; }
  CallBuilder &input(ir::BufferView view) {
    call_.inputs.push_back(std::move(view));
    return *this;
  }
  /// The call's own output is no tensor.
  CallBuilder &no_result(tensor::Device device) {
    outputs_ = {add_output_without_tensor(context_, device)};
    return *this;
  }
  CallBuilder &result(BufferId buffer) {
    outputs_ = {buffer};
    return *this;
  }
  /// The call's own output stands for the memory of `buffer` too.
  CallBuilder &aliases(BufferId buffer) {
    context_.module.buffers[outputs_[0]].aliases.push_back(buffer);
    return *this;
  }
  CallBuilder &writes(BufferId buffer) {
    outputs_.push_back(add_version(context_, buffer));
    return *this;
  }
  /// The outputs.
  std::vector<BufferId> add() {
    const ir::OperationId id = register_operation(context_, std::move(call_), outputs_);
    context_.module.operations[id].has_side_effects = has_side_effects_;
    return outputs_;
  }
  CallBuilder &needed_only_for_its_results() {
    has_side_effects_ = false;
    return *this;
  }

private:
  Context &context_;
  ir::Extern call_;
  std::vector<BufferId> outputs_;
  bool has_side_effects_ = true;
};

bool has_parameter(const ops::Call &call, std::string_view name) {
  const auto &parameters = call.schema().parameters;
  return std::any_of(parameters.begin(), parameters.end(),
                     [&](const auto &parameter) { return parameter.name == name; });
}

ir::ProcessGroup group_of(const ops::Call &call) {
  return {call.string("group_name").value_or(""),
          has_parameter(call, "group_size") ? call.integer("group_size") : 0};
}

BufferId add_tensor(Context &context, const graph::TensorMeta &meta) {
  const BufferId buffer =
      register_buffer(context, meta.layout.sizes, meta.dtype, result_device(context));
  decide_layout_as(context, buffer, meta.layout.strides);
  return buffer;
}

NodeValue gather_copy_in(Context &context, const ops::Call &call) {
  CallBuilder builder(context, ir::Library::gather_copy_in,
                      "torch.ops.fsdp.all_gather_copy_in.default", "FallbackKernel");
  for (TensorValue &value : tensor_arguments(context, call, "all_gather_inputs"))
    builder.input(in_order(context, value));
  const graph::Value::List &results = *call.node().value->list();
  const graph::TensorMeta &part = *results[0].tensor();
  const BufferId tuple = add_output_without_tensor(context, part.device);
  context.module.buffers[tuple].layout_kind = ir::LayoutKind::multi_output;
  builder.result(tuple).needed_only_for_its_results().add();
  std::vector<TensorValue> values;
  for (size_t item = 0; item < results.size(); ++item) {
    CallBuilder getter(context, ir::Library::tuple_item, "", "MultiOutput");
    ir::BufferView view;
    view.buffer = tuple;
    view.dtype = part.dtype;
    getter.call().item = item;
    const BufferId buffer = add_tensor(context, *results[item].tensor());
    getter.input(view).result(buffer).needed_only_for_its_results().add();
    values.push_back(tensor_of_buffer(context, buffer));
  }
  return values;
}

/// Whether the call's result lies where its input does.
bool is_in_place(const ops::Call &call) {
  const auto &parameters = call.schema().parameters;
  return std::any_of(parameters.begin(), parameters.end(), [](const auto &parameter) {
    return parameter.name == "input" && ops::is_written(parameter);
  });
}

/// A collective of what `input` holds: into a tensor of its own, into `out` where the call has that
/// parameter, or in place. `details`: the library, and what only that kind has.
NodeValue add_collective(Context &context, const ops::Call &call, ir::Extern details) {
  CallBuilder builder(context, details.library, "torch.ops." + call.node().target,
                      "_CollectiveKernel");
  details.kernel = builder.call().kernel;
  details.ir_class = builder.call().ir_class;
  if (details.group.size == 0)
    details.group = group_of(call);
  builder.call() = std::move(details);
  const bool has_out = has_parameter(call, "out");
  if (!has_out && !is_in_place(call)) {
    const ir::BufferView input = read_argument(context, call, "input");
    const BufferId result = add_tensor(context, result_meta(context));
    builder.input(input).result(result).add();
    return tensor_of_buffer(context, result);
  }
  TensorValue target = tensor_argument(context, call, has_out ? "out" : "input");
  std::optional<ir::BufferView> part;
  if (has_out)
    part = read_argument(context, call, "input");
  const ir::BufferView whole = written_view(context, call, target);
  builder.input(part.value_or(whole)).input(whole).no_result(result_device(context));
  if (part)
    builder.aliases(part->buffer);
  builder.aliases(whole.buffer);
  if (part)
    builder.writes(part->buffer);
  builder.writes(whole.buffer).add();
  return target;
}

ir::Extern details_of(ir::Library library) {
  ir::Extern details;
  details.library = library;
  details.group.size = 0; // not known yet
  return details;
}

NodeValue all_gather(Context &context, const ops::Call &call) {
  return add_collective(context, call, details_of(ir::Library::all_gather));
}
NodeValue reduce_scatter(Context &context, const ops::Call &call) {
  ir::Extern details = details_of(ir::Library::reduce_scatter);
  details.reduction = *call.string("reduce_op");
  return add_collective(context, call, std::move(details));
}
NodeValue all_reduce(Context &context, const ops::Call &call) {
  ir::Extern details = details_of(ir::Library::all_reduce);
  details.reduction = *call.string("reduce_op");
  return add_collective(context, call, std::move(details));
}
NodeValue broadcast(Context &context, const ops::Call &call) {
  ir::Extern details = details_of(ir::Library::broadcast);
  details.root = call.integer("src");
  return add_collective(context, call, std::move(details));
}
NodeValue all_to_all(Context &context, const ops::Call &call) {
  ir::Extern details = details_of(ir::Library::all_to_all);
  const graph::TensorMeta input = call.tensor("input");
  const std::vector<Expr> row(input.layout.sizes.begin() + 1, input.layout.sizes.end());
  for (const Expr rows : call.sizes("input_split_sizes"))
    details.sends.push_back(rows * symbolic::numel(row));
  for (const Expr rows : call.sizes("output_split_sizes"))
    details.receives.push_back(rows * symbolic::numel(row));
  details.group = {call.string("group_name").value_or(""),
                   static_cast<int64_t>(details.sends.size())};
  return add_collective(context, call, std::move(details));
}

/// What a collective that made `buffer` reads: it is in use until the collective is done.
std::optional<ir::BufferView> memory_in_use(const Context &context, BufferId buffer) {
  const ir::OperationId producer = context.module.buffer(buffer).operation;
  if (producer == ir::kNone)
    return std::nullopt;
  const auto *call = std::get_if<ir::Extern>(&context.module.operations[producer].kind);
  if (call == nullptr || !ir::is_collective(call->library))
    return std::nullopt;
  return call->inputs[0];
}

NodeValue wait(Context &context, const ops::Call &call) {
  TensorValue value = tensor_argument(context, call, "tensor");
  const ir::BufferView view = written_view(context, call, value);
  CallBuilder builder(context, ir::Library::wait, "torch.ops._c10d_functional.wait_tensor.default",
                      "_WaitKernel");
  builder.input(view);
  if (const std::optional<ir::BufferView> used = memory_in_use(context, view.buffer))
    builder.input(*used);
  builder.no_result(result_device(context)).writes(view.buffer).add();
  return value;
}

tensor::Device device_of(const Context &context, BufferId buffer) {
  return context.module.buffer(buffer).device;
}

NodeValue split_copy_out(Context &context, const ops::Call &call) {
  CallBuilder builder(context, ir::Library::split_copy_out,
                      "torch.ops.fsdp.split_with_sizes_copy.default", "FallbackKernel");
  const ir::BufferView whole = read_argument(context, call, "all_gather_output");
  builder.input(whole);
  std::vector<BufferId> written;
  for (TensorValue &out : tensor_arguments(context, call, "out")) {
    const ir::BufferView view = written_view(context, call, out);
    written.push_back(view.buffer);
    builder.input(view);
  }
  builder.no_result(device_of(context, whole.buffer));
  for (const BufferId buffer : written)
    builder.aliases(buffer);
  for (const BufferId buffer : written)
    builder.writes(buffer);
  builder.add();
  return graph::None{};
}

NodeValue chunk_concat(Context &context, const ops::Call &call) {
  CallBuilder builder(context, ir::Library::chunk_concat, "torch.ops.fsdp.chunk_cat.default",
                      "FallbackKernel");
  for (TensorValue &value : tensor_arguments(context, call, "tensors"))
    builder.input(in_order(context, value));
  const ir::BufferView out = written_view(context, call, tensor_argument(context, call, "out"));
  builder.call().group.size = call.integer("num_chunks");
  builder.input(out).no_result(device_of(context, out.buffer));
  builder.aliases(out.buffer).writes(out.buffer).add();
  return graph::None{};
}

/// The input whose memory `buffer` is, if it is one.
bool is_input(const Context &context, BufferId buffer) {
  return context.module.buffer(buffer).role == ir::Buffer::Role::input;
}

NodeValue set_storage(Context &context, const ops::Call &call) {
  const TensorValue tensor = tensor_argument(context, call, "tensor");
  const ir::BufferView data = written_view(context, call, tensor_argument(context, call, "data"));
  const ir::BufferView own = written_view(context, call, tensor);
  if (tensor.is_view() || own.layout.sizes != data.layout.sizes ||
      own.layout.strides != data.layout.strides) {
    call.refuse("TSC-O120", "set_ of a tensor to memory that lies otherwise",
                "set a whole tensor to data of its own sizes and strides");
  }
  CallBuilder builder(context, ir::Library::set_storage, "torch.ops.aten.set_.source_Tensor",
                      "SetSourceTensorKernel");
  const BufferId result = add_tensor(context, call.tensor("tensor"));
  builder.input(own).input(data).result(result).needed_only_for_its_results();
  builder.aliases(own.buffer).aliases(data.buffer).writes(own.buffer).writes(data.buffer);
  const std::vector<BufferId> outputs = builder.add();
  if (is_input(context, own.buffer))
    context.set_inputs[own.buffer] = outputs[1];
  return graph::None{};
}

NodeValue resize_storage(Context &context, const ops::Call &call) {
  const ir::BufferView view =
      written_view(context, call, tensor_argument(context, call, "variable"));
  CallBuilder builder(context, ir::Library::resize_storage, "inductor_ops.resize_storage_bytes_",
                      "ResizeStorageBytes");
  builder.input(view).result(add_version(context, view.buffer)).add();
  return graph::None{};
}

} // namespace

void lower_set_inputs(Context &context) {
  for (size_t i = 0; i < context.module.inputs.size(); ++i) {
    const BufferId input = context.module.inputs[i];
    const auto found = context.set_inputs.find(input);
    if (found == context.set_inputs.end())
      continue;
    const graph::InputSpec &spec = context.module.input_specs[i];
    ir::Output output;
    output.kind = ops::mutation_of(spec.kind);
    output.target =
        spec.kind == graph::InputKind::user ? context.graph.node(spec.node).name : spec.target;
    ir::BufferView view;
    view.buffer = found->second;
    view.layout = context.module.buffer(input).layout;
    view.dtype = context.module.buffer(input).dtype;
    output.value = view;
    context.module.outputs.push_back(std::move(output));
  }
}

void check_groups(const ir::Module &module) {
  std::map<std::string, int64_t> sizes;
  for (const ir::Operation &operation : module.operations) {
    const auto *call = std::get_if<ir::Extern>(&operation.kind);
    if (call == nullptr || !ir::is_collective(call->library) || call->group.size == 0)
      continue;
    const int64_t size = sizes.emplace(call->group.name, call->group.size).first->second;
    if (call->group.size != size) {
      support::Diagnostic problem;
      problem.code = "TSC-O122";
      problem.message = "the group '" + call->group.name + "' has " + std::to_string(size) +
                        " ranks in one collective, and " + std::to_string(call->group.size) +
                        " in another";
      problem.node = module.origins[operation.origins.front()].node;
      problem.next_step = "give groups of different ranks different names";
      throw support::UserError(support::ExitCode::unsupported, problem);
    }
  }
}

void add_collectives(Registry &registry) {
  registry["gather_copy_in"] = gather_copy_in;
  registry["all_gather"] = all_gather;
  registry["reduce_scatter"] = reduce_scatter;
  registry["all_reduce"] = all_reduce;
  registry["broadcast"] = broadcast;
  registry["all_to_all"] = all_to_all;
  registry["wait"] = wait;
  registry["split_copy_out"] = split_copy_out;
  registry["chunk_concat"] = chunk_concat;
  registry["set_storage"] = set_storage;
  registry["resize_storage"] = resize_storage;
}

} // namespace tsc::lowering
