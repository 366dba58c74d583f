#include "scheduler/estimate_runtime.h"

#include "scheduler/dependency.h"
#include "scheduler/storages.h"

#include <algorithm>
#include <map>

namespace tsc::scheduler {

namespace {

constexpr double kNanoseconds = 1e9;
/// From one rank's send to the next one's receipt, between GPUs of a host. An assumption: measured
/// figures of small messages are one to a few microseconds.
constexpr double kLinkLatency = 1e-6;

double elements(const ir::Module &module, std::span<const Expr> sizes) {
  return static_cast<double>(size_hint(module, symbolic::numel(sizes)));
}

double bytes_of(const ir::Module &module, const ir::BufferView &view) {
  return elements(module, view.layout.sizes) *
         static_cast<double>(tensor::size_in_bytes(view.dtype));
}

/// Bytes of memory: of each storage what accesses touch, no more than it has, reads and writes
/// apart. What stays inside the group is not counted.
double moved_bytes(const ir::Module &module, const Schedule &schedule, const Group &group) {
  double total = 0;
  for (std::vector<Dependency> Node::*list : {&Node::reads, &Node::writes}) {
    std::vector<Dependency> accesses;
    for (const NodeId member : group.members) {
      for (const Dependency &access : schedule.nodes[member].*list) {
        if (!is_weak(access) &&
            !std::binary_search(group.internal_buffers.begin(), group.internal_buffers.end(),
                                buffer_of(access)))
          accesses.push_back(access);
      }
    }
    remove_duplicates(accesses);
    std::map<BufferId, int64_t> touched; // by storage
    for (const Dependency &access : accesses)
      touched[module.storage_of(buffer_of(access))] += bytes_hint(module, access);
    for (const auto &[storage, bytes] : touched)
      total += static_cast<double>(std::min(bytes, storage_bytes(module, storage)));
  }
  return total;
}

/// One for each elementwise operation and each step of a reduction, scan or sort, at every point.
double loop_operations(const ir::Module &module, const ir::LoopBody &body) {
  const auto count = std::count_if(body.ops.begin(), body.ops.end(), [](const ir::BodyOp &op) {
    return ir::operand_count(op.op) > 0 || op.op == ir::Op::reduction || op.op == ir::Op::scan ||
           op.op == ir::Op::sort;
  });
  return static_cast<double>(count) * elements(module, body.sizes);
}

double peak_of(const target::Target &target, ir::DType dtype, bool is_product) {
  if (dtype == ir::DType::f64)
    return target.flops_f64;
  const bool is_half = dtype == ir::DType::f16 || dtype == ir::DType::bf16;
  return is_product && is_half ? target.flops_16bit : target.flops_f32;
}

/// The longer of moving and computing, as if they overlapped in full.
void take_longer(RuntimeEstimate &estimate, double bandwidth, double peak) {
  const double moving = bandwidth > 0 ? estimate.bytes / bandwidth : 0;
  const double computing = peak > 0 ? estimate.operations / peak : 0;
  estimate.nanoseconds = std::max(moving, computing) * kNanoseconds;
}

/// Rings: every rank sends n - 1 of n parts, one after the other.
RuntimeEstimate estimate_collective(const ir::Module &module, const ir::Extern &call,
                                    const target::Target &target) {
  const auto ranks = static_cast<double>(std::max<int64_t>(call.group.size, 1));
  const ir::BufferView &whole =
      call.library == ir::Library::all_gather ? call.inputs[1] : call.inputs[0];
  RuntimeEstimate estimate;
  estimate.bytes = bytes_of(module, whole) * (ranks - 1) / ranks;
  const double sending = target.link_bandwidth > 0 ? estimate.bytes / target.link_bandwidth : 0;
  estimate.nanoseconds = (sending + (ranks - 1) * kLinkLatency) * kNanoseconds;
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

RuntimeEstimate estimate_call(const ir::Module &module, const ir::Operation &operation,
                              const target::Target &target) {
  const auto &call = std::get<ir::Extern>(operation.kind);
  RuntimeEstimate estimate;
  switch (call.library) {
  case ir::Library::wait:
  case ir::Library::tuple_item:
  case ir::Library::set_storage:
  case ir::Library::resize_storage:
    return estimate;
  case ir::Library::all_gather:
  case ir::Library::reduce_scatter:
    return estimate_collective(module, call, target);
  case ir::Library::matmul:
    estimate.operations = product_operations(module, operation, call);
    break;
  case ir::Library::attention:
    estimate.operations = attention_operations(module, call);
    break;
  default: // copies
    break;
  }
  std::vector<BufferId> written;
  for (const BufferId output : operation.outputs) {
    written.push_back(module.storage_of(output));
    estimate.bytes += static_cast<double>(storage_bytes(module, written.back()));
  }
  for (const ir::BufferView &input : call.inputs) { // one that is written is named as an input too
    if (std::find(written.begin(), written.end(), module.storage_of(input.buffer)) == written.end())
      estimate.bytes += bytes_of(module, input);
  }
  take_longer(estimate, target.bandwidth,
              peak_of(target, module.buffer(operation.outputs[0]).dtype, true));
  return estimate;
}

} // namespace

RuntimeEstimate estimate_runtime(const ir::Module &module, const Schedule &schedule,
                                 const Group &group, const target::Target &target) {
  RuntimeEstimate estimate;
  if (group.node_class == NodeClass::nop)
    return estimate;
  if (group.node_class == NodeClass::external) {
    for (const NodeId member : group.members) {
      const OperationId operation = schedule.nodes[member].operation;
      const RuntimeEstimate call = estimate_call(module, module.operations[operation], target);
      estimate.bytes += call.bytes;
      estimate.operations += call.operations;
      estimate.nanoseconds += call.nanoseconds;
    }
    return estimate;
  }
  estimate.bytes = moved_bytes(module, schedule, group);
  ir::DType widest = ir::DType::f32;
  for (const NodeId member : group.members) {
    const ir::LoopBody &body = schedule.nodes[member].body;
    estimate.operations += loop_operations(module, body);
    for (const ir::BodyOp &op : body.ops) {
      if (op.dtype == ir::DType::f64)
        widest = ir::DType::f64;
    }
  }
  take_longer(estimate, target.bandwidth, peak_of(target, widest, false));
  return estimate;
}

} // namespace tsc::scheduler
