#include "scheduler/cost.h"

#include "ir/custom_call.h"
#include "scheduler/dependency.h"
#include "scheduler/storages.h"

#include <algorithm>
#include <map>
#include <unordered_set>

namespace tsc::scheduler {

namespace {

double elements(const ir::Module &module, std::span<const Expr> sizes) {
  return static_cast<double>(size_hint(module, symbolic::numel(sizes)));
}

double bytes_of(const ir::Module &module, const ir::BufferView &view) {
  return elements(module, view.layout.sizes) *
         static_cast<double>(tensor::size_in_bytes(view.dtype));
}

/// One for each elementwise operation and each step of a reduction, scan or sort, at every point.
double loop_operations(const ir::Module &module, const ir::LoopBody &body) {
  const auto count = std::count_if(body.ops.begin(), body.ops.end(), [](const ir::BodyOp &op) {
    return ir::operand_count(op.op) > 0 || op.op == ir::Op::reduction || op.op == ir::Op::scan ||
           op.op == ir::Op::sort;
  });
  return static_cast<double>(count) * elements(module, body.sizes);
}

/// Rings: every rank sends n - 1 of n parts, one after the other; reduced for all twice.
Cost estimate_collective(const ir::Module &module, const ir::Extern &call,
                         const target::Target &target) {
  // Where nothing says how many there are, the fewest that communicate.
  const auto ranks = static_cast<double>(call.group.size == 0 ? 2 : call.group.size);
  Cost estimate;
  const double bytes = bytes_of(module, call.inputs[0]);
  if (call.library == ir::Library::all_gather)
    estimate.bytes = bytes * (ranks - 1);
  else if (call.library == ir::Library::broadcast)
    estimate.bytes = ranks > 1 ? bytes : 0;
  else
    estimate.bytes =
        bytes * (ranks - 1) / ranks * (call.library == ir::Library::all_reduce ? 2 : 1);
  estimate.nanoseconds = sending_nanoseconds(target, estimate.bytes, static_cast<int64_t>(ranks));
  return estimate;
}

double product_operations(const ir::Module &module, const ir::Operation &operation,
                          const ir::Extern &call) {
  const std::vector<Expr> &sizes = call.inputs[0].layout.sizes;
  const Expr inner = sizes.empty() ? Expr(1) : sizes.back();
  return 2 * elements(module, module.buffer(operation.outputs[0]).layout.sizes) *
         static_cast<double>(size_hint(module, inner));
}

/// Two products over query rows, key rows and depth; a causal mask leaves out half.
double attention_operations(const ir::Module &module, const ir::Extern &call) {
  const std::vector<Expr> &query = call.inputs[0].layout.sizes, &key = call.inputs[1].layout.sizes;
  const double all =
      4 * elements(module, query) * static_cast<double>(size_hint(module, key[key.size() - 2]));
  return call.causal ? all / 2 : all;
}

Cost estimate_call(const ir::Module &module, const ir::Operation &operation,
                   const target::Target &target) {
  const auto &call = std::get<ir::Extern>(operation.kind);
  Cost estimate;
  switch (call.library) {
  case ir::Library::wait:
  case ir::Library::tuple_item:
  case ir::Library::set_storage:
  case ir::Library::resize_storage:
  case ir::Library::define_size:
    return estimate;
  case ir::Library::all_gather:
  case ir::Library::reduce_scatter:
  case ir::Library::all_reduce:
  case ir::Library::broadcast:
  case ir::Library::all_to_all:
    return estimate_collective(module, call, target);
  case ir::Library::sort:
    return radix_sort_cost(target, sort_work(module, call));
  case ir::Library::matmul:
  case ir::Library::sectioned_matmul:
    estimate.operations = product_operations(module, operation, call);
    break;
  case ir::Library::attention:
    estimate.operations = attention_operations(module, call);
    break;
  case ir::Library::user_kernel:
    estimate.operations = static_cast<double>(size_hint(module, call.custom->matrix_operations));
    break;
  default: // copies
    break;
  }
  std::vector<BufferId> written;
  for (const BufferId output : operation.outputs) {
    written.push_back(module.storage_of(output));
    estimate.bytes += static_cast<double>(storage_bytes(module, written.back()));
  }
  if (call.library == ir::Library::user_kernel) // what it writes are the items, which follow it
    for (size_t i = 0; i < call.custom->results; ++i)
      estimate.bytes += static_cast<double>(storage_bytes(
          module,
          module.operations[static_cast<size_t>(&operation - module.operations.data()) + 1 + i]
              .outputs[0]));
  for (const ir::BufferView &input : call.inputs) // one that is written is named as an input too
    if (std::find(written.begin(), written.end(), module.storage_of(input.buffer)) == written.end())
      estimate.bytes += bytes_of(module, input);
  if (call.library == ir::Library::matmul || call.library == ir::Library::sectioned_matmul) {
    estimate.nanoseconds = library_nanoseconds(
        target, estimate.bytes, estimate.operations, call.inputs[0].dtype, call.tf32,
        call.library == ir::Library::matmul &&
            is_between_vectors(call.inputs[0].dtype,
                               size_hint(module, call.inputs[1].layout.sizes.back())));
    const std::vector<Expr> &left = call.inputs[0].layout.sizes;
    const auto size = [&](Expr e) { return static_cast<double>(size_hint(module, e)); };
    if (left.size() == 3)
      estimate.nanoseconds =
          std::max(estimate.nanoseconds,
                   library_batch_nanoseconds(
                       target, call.inputs[0].dtype, call.tf32, size(left[0]), size(left[1]),
                       size(call.inputs[1].layout.sizes.back()), size(left[2])));
  } else if (call.library == ir::Library::attention)
    estimate.nanoseconds =
        attention_nanoseconds(target, estimate.bytes, estimate.operations, call.inputs[0].dtype);
  else if (call.library == ir::Library::user_kernel && estimate.operations > 0)
    estimate.nanoseconds = attention_backward_nanoseconds(
        target, estimate.bytes, estimate.operations, call.custom->by_groups);
  else
    estimate.nanoseconds = kernel_nanoseconds(target, estimate.bytes);
  return estimate;
}

} // namespace

SortWork sort_work(const ir::Module &module, const ir::Extern &call) {
  const ir::BufferView &rows = call.inputs[0];
  SortWork work;
  work.rows = static_cast<double>(size_hint(module, rows.layout.sizes[0]));
  work.length = static_cast<double>(size_hint(module, rows.layout.sizes[1]));
  work.bytes = static_cast<int64_t>(tensor::size_in_bytes(rows.dtype));
  work.values = call.values;
  work.positions = call.positions;
  work.any_length = !rows.layout.sizes[1].is_integer();
  return work;
}

namespace {

/// Bytes that one access of a member's loops touches. A place that is loaded may be any of the
/// buffer, but no more are touched than the loops have turns: rows of a table that somebody looks
/// up. Each for itself they cost a sector. (`bytes_hint`, by which fusions are ranked as
/// TorchInductor ranks them, takes all of the buffer.)
int64_t touched_bytes(const ir::Module &module, const Node &member, const Dependency &access) {
  constexpr int64_t kSector = 32;
  const int64_t all = bytes_hint(module, access);
  const MemoryDep *memory = std::get_if<MemoryDep>(&access);
  if (memory == nullptr || !is_indirect(*memory))
    return all;
  const std::vector<Expr> strides = symbolic::stride_vars(memory->index, memory->variables);
  const bool beside =
      std::any_of(strides.begin(), strides.end(), [](Expr stride) { return stride.is_integer(1); });
  const auto item =
      static_cast<int64_t>(tensor::size_in_bytes(module.buffer(memory->buffer).dtype));
  const double turns = elements(module, member.body.sizes);
  return static_cast<int64_t>(
      std::min(static_cast<double>(all),
               turns * static_cast<double>(beside ? item : std::max(item, kSector))));
}

} // namespace

int64_t moved_bytes(const ir::Module &module, const Schedule &schedule,
                    const std::vector<NodeId> &members,
                    const std::function<bool(BufferId)> &stays_inside) {
  int64_t total = 0;
  for (std::vector<Dependency> Node::*list : {&Node::reads, &Node::writes}) {
    std::unordered_set<Dependency, DependencyHash> seen;
    std::map<BufferId, int64_t> touched; // by storage
    for (const NodeId member : members)
      for (const Dependency &access : schedule.nodes[member].*list)
        if (!is_weak(access) && !stays_inside(buffer_of(access)) && seen.insert(access).second)
          touched[module.storage_of(buffer_of(access))] +=
              touched_bytes(module, schedule.nodes[member], access);
    for (const auto &[storage, bytes] : touched)
      total += std::min(bytes, storage_bytes(module, storage));
  }
  return total;
}

Cost cost_of(const ir::Module &module, const Schedule &schedule, const Group &group,
             const target::Target &target) {
  Cost estimate;
  if (group.node_class == NodeClass::nop)
    return estimate;
  const bool is_product = group.parts && group.parts->columns > 0;
  const bool computes_operands = group.parts && (group.parts->keys || group.parts->values);
  if (group.node_class == NodeClass::external ||
      (group.parts && !is_product && !computes_operands)) {
    for (const NodeId member : group.members) {
      const OperationId operation = schedule.nodes[member].operation;
      const Cost call = estimate_call(module, module.operations[operation], target);
      estimate.bytes += call.bytes;
      estimate.operations += call.operations;
      estimate.nanoseconds += call.nanoseconds;
    }
    return estimate;
  }
  estimate.bytes =
      static_cast<double>(moved_bytes(module, schedule, group.members, [&group](BufferId buffer) {
        return std::binary_search(group.internal_buffers.begin(), group.internal_buffers.end(),
                                  buffer);
      }));
  if (computes_operands) {
    const ir::Operation &root = module.operations[schedule.nodes[group.parts->root].operation];
    estimate.operations = attention_operations(module, std::get<ir::Extern>(root.kind));
    estimate.nanoseconds = group.parts->nanoseconds;
    return estimate;
  }
  ir::DType widest = ir::DType::f32;
  for (const NodeId member : group.members) {
    const ir::LoopBody &body = schedule.nodes[member].body;
    estimate.operations += loop_operations(module, body);
    for (const ir::BodyOp &op : body.ops)
      if (op.dtype == ir::DType::f64)
        widest = ir::DType::f64;
  }
  if (is_product) {
    const TemplateParts &parts = *group.parts;
    estimate.operations +=
        operations_of({size_hint(module, parts.batches * parts.rows), parts.columns, parts.terms});
    estimate.nanoseconds = parts.nanoseconds;
  } else {
    estimate.nanoseconds = kernel_nanoseconds(target, estimate.bytes, estimate.operations, widest);
  }
  return estimate;
}

} // namespace tsc::scheduler
