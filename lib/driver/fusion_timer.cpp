#include "driver/fusion_timer.h"

#include "codegen/generate.h"
#include "driver/inputs.h"
#include "support/diagnostic.h"
#include "support/hash.h"

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_map>

namespace tsc::driver {
namespace {

using ir::BufferId;
using support::ExitCode;
using support::UserError;

constexpr int kRuns = 9; // odd: the median is one of them

const scheduler::Group &group_of(const scheduler::Schedule &schedule) { return schedule.groups[0]; }

/// By buffer: the extent that the integers in it index. Nothing if inputs cannot be made up.
std::optional<std::map<BufferId, int64_t>> find_extents(const scheduler::Group &group) {
  std::map<BufferId, int64_t> extents;
  for (const ir::LoopBody &body : group.bodies) {
    for (const ir::BodyOp &op : body.ops) {
      if (ir::is_random(op.op))
        return std::nullopt;
      if (op.op != ir::Op::set_indirect)
        continue;
      const ir::BodyOp *source = &body.ops[op.args[0]];
      while (source->op == ir::Op::to_dtype)
        source = &body.ops[source->args[0]];
      if (source->op != ir::Op::load || !op.extent.is_integer())
        return std::nullopt;
      const auto known = extents.emplace(source->buffer, op.extent.value()).first;
      known->second = std::min(known->second, op.extent.value());
    }
  }
  return extents;
}

bool is_static(const ir::Module &module, const scheduler::Group &group) {
  return std::all_of(group.bodies.begin(), group.bodies.end(), [&](const ir::LoopBody &body) {
    const bool loops = std::all_of(body.sizes.begin(), body.sizes.end(),
                                   [](symbolic::Expr size) { return size.is_integer(); });
    return loops && std::all_of(body.ops.begin(), body.ops.end(), [&](const ir::BodyOp &op) {
             return op.buffer == ir::kNone ||
                    module.buffer(op.buffer).layout.storage_size().is_integer();
           });
  });
}

/// What a group does, whatever its operations and buffers are called.
class GroupText {
public:
  GroupText(const ir::Module &module, const scheduler::Group &group)
      : module_(module), group_(group) {}

  std::string hash() {
    for (const ir::LoopBody &body : group_.bodies) {
      add(body.iteration_count);
      for (const symbolic::Expr size : body.sizes)
        hash_.add(symbolic::print(size));
      for (const ir::BodyOp &op : body.ops)
        add_op(body, op);
      for (const ir::Block &block : body.blocks) {
        hash_.add("block");
        for (const uint32_t op : block.ops)
          add(op);
      }
    }
    return hash_.hex();
  }

private:
  const ir::Module &module_;
  const scheduler::Group &group_;
  support::ContentHash hash_;
  std::map<BufferId, size_t> numbers_;

  template <class Number> void add(Number number) { hash_.add(std::to_string(number)); }
  void add_op(const ir::LoopBody &body, const ir::BodyOp &op) {
    hash_.add(ir::op_name(op.op));
    for (const uint32_t arg : op.args)
      add(arg);
    for (const int part :
         {static_cast<int>(op.dtype), static_cast<int>(op.source_dtype),
          static_cast<int>(op.reduction), static_cast<int>(op.scan), static_cast<int>(op.mode)})
      add(part);
    if (op.combine)
      add_combine(*op.combine.code);
    add(op.item);
    add(op.block);
    std::visit([&](auto value) { add(value); }, op.constant);
    hash_.add(symbolic::print(op.symbol)).add(symbolic::print(op.extent));
    if (op.index != ir::kNone)
      hash_.add(symbolic::print(body.indices[op.index]));
    if (op.buffer != ir::kNone)
      add_buffer(op.buffer);
  }
  void add_combine(const ir::Combine &combine) {
    for (const ir::CombineOp &op : combine.ops) {
      hash_.add(ir::op_name(op.op));
      add(static_cast<int>(op.dtype));
      add(static_cast<int>(op.source_dtype));
      std::visit([&](auto value) { add(value); }, op.constant);
      for (const uint32_t arg : op.args)
        add(arg);
    }
    for (const uint32_t result : combine.results)
      add(result);
  }
  void add_buffer(BufferId id) {
    const auto [known, inserted] = numbers_.emplace(id, numbers_.size());
    add(known->second);
    if (!inserted)
      return;
    const ir::Buffer &buffer = module_.buffer(id);
    const BufferId storage = module_.storage_of(id);
    add(numbers_.emplace(storage, numbers_.size()).first->second);
    add(static_cast<int>(buffer.dtype));
    add(std::binary_search(group_.internal_buffers.begin(), group_.internal_buffers.end(), id));
    for (const auto *list : {&buffer.layout.sizes, &buffer.layout.strides}) {
      hash_.add("list");
      for (const symbolic::Expr e : *list)
        hash_.add(symbolic::print(e));
    }
    hash_.add(symbolic::print(buffer.layout.offset));
  }
};

class FusionTimer {
public:
  FusionTimer(const ir::Module &module, const target::Target &target,
              const runtime::SessionOptions &device)
      : target_(target), device_(device) {
    part_.buffers = module.buffers;
    part_.operations = module.operations;
    part_.origins = module.origins;
    part_.checks = module.checks;
  }

  std::optional<double> time(const scheduler::Schedule &schedule) {
    const scheduler::Group &group = group_of(schedule);
    const auto extents = find_extents(group);
    if (!extents || !is_static(part_, group))
      return std::nullopt;
    const std::string key = GroupText(part_, group).hash();
    const auto known = times_.find(key);
    if (known != times_.end())
      return known->second;
    const double nanoseconds = run(schedule, *extents);
    times_.emplace(key, nanoseconds);
    return nanoseconds;
  }

private:
  const target::Target &target_;
  const runtime::SessionOptions device_;
  ir::Module part_; // the module, without its inputs and outputs
  std::unordered_map<std::string, double> times_;

  /// Storages that the group reads or changes and does not make; ascending.
  std::vector<BufferId> outside(const scheduler::Schedule &schedule) const {
    std::vector<BufferId> made, found;
    for (const scheduler::Node &node : schedule.nodes)
      for (const BufferId output : part_.operations[node.operation].outputs)
        made.push_back(part_.storage_of(output));
    const auto is_made = [&](BufferId storage) {
      const ir::Buffer &buffer = part_.buffer(storage);
      return std::find(made.begin(), made.end(), storage) != made.end() &&
             buffer.role == ir::Buffer::Role::computed &&
             std::any_of(
                 schedule.nodes.begin(), schedule.nodes.end(),
                 [&](const scheduler::Node &node) { return node.operation == buffer.operation; });
    };
    for (const ir::LoopBody &body : group_of(schedule).bodies) {
      for (const ir::BodyOp &op : body.ops)
        if (op.buffer != ir::kNone && !is_made(part_.storage_of(op.buffer)))
          found.push_back(part_.storage_of(op.buffer));
    }
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  /// Outputs of the program: what is stored for others.
  void add_outputs(const scheduler::Schedule &schedule) {
    const std::vector<BufferId> &internal = group_of(schedule).internal_buffers;
    for (const scheduler::Node &node : schedule.nodes) {
      for (const BufferId output : part_.operations[node.operation].outputs) {
        const ir::Buffer &buffer = part_.buffer(output);
        if (buffer.mutates == ir::kNone &&
            !std::binary_search(internal.begin(), internal.end(), output))
          part_.outputs.push_back(
              {ir::BufferView{output, buffer.layout, buffer.dtype}, graph::OutputKind::user, ""});
      }
    }
  }

  double run(const scheduler::Schedule &schedule, const std::map<BufferId, int64_t> &extents) {
    const std::vector<BufferId> inputs = outside(schedule);
    std::vector<ir::Buffer> saved;
    std::map<std::string, DataHint> hints;
    for (const BufferId id : inputs) {
      ir::Buffer &buffer = part_.buffers[id];
      saved.push_back(buffer);
      buffer.role = ir::Buffer::Role::input;
      buffer.weight.clear();
      buffer.scalar.reset();
      buffer.aliases.clear();
      const auto extent = extents.find(id);
      hints[buffer.name] = {extent == extents.end() ? 1 : std::max<int64_t>(extent->second - 1, 0),
                            true};
    }
    part_.inputs = inputs;
    part_.input_specs.assign(inputs.size(), {});
    part_.outputs.clear();
    add_outputs(schedule);
    const program::Program program = codegen::generate(part_, schedule, {&target_});
    for (size_t i = 0; i < inputs.size(); ++i)
      part_.buffers[inputs[i]] = std::move(saved[i]);
    const auto session = runtime::Session::create(program, {}, device_);
    std::vector<double> samples = session->bench(load_inputs(program, {"", true, 0}, hints), kRuns);
    std::sort(samples.begin(), samples.end());
    return samples[samples.size() / 2] * 1e6;
  }
};

} // namespace

runtime::SessionOptions timing_device(const std::string &name) {
  runtime::SessionOptions options;
  if (name == "host")
    return options;
  if (name == "host-cuda") {
    options.plan = runtime::Plan::cuda;
    return options;
  }
  if (name != "cuda")
    throw UserError(ExitCode::usage, {.code = "TSC-C014",
                                      .message = "fusions are not timed on '" + name + "'",
                                      .next_step = "devices: host, host-cuda, cuda"});
  std::string why;
  if (!runtime::cuda_available(&why))
    throw UserError(ExitCode::device,
                    {.code = "TSC-C015",
                     .message = "fusions cannot be timed on a GPU: " + why,
                     .next_step = "compile where the GPU is, or leave --benchmark-fusion out"});
  options.device = runtime::DeviceKind::cuda;
  options.plan = runtime::Plan::cuda;
  return options;
}

std::function<std::optional<double>(const scheduler::Schedule &)>
make_fusion_timer(const ir::Module &module, const target::Target &target,
                  const runtime::SessionOptions &device) {
  auto timer = std::make_shared<FusionTimer>(module, target, device);
  return [timer](const scheduler::Schedule &schedule) { return timer->time(schedule); };
}

} // namespace tsc::driver
