// Which buffers a step touches.
#include "program/step_fields.h"

#include <algorithm>

namespace tsc::program {
namespace {

std::vector<uint32_t> sorted_unique(std::vector<uint32_t> buffers) {
  std::sort(buffers.begin(), buffers.end());
  buffers.erase(std::unique(buffers.begin(), buffers.end()), buffers.end());
  return buffers;
}

/// Pointer parameters of the launch's kernel that are (or are not) const.
std::vector<uint32_t> launch_buffers(const Program &program, const Launch &launch, bool is_const) {
  std::vector<uint32_t> buffers;
  size_t pointer = 0;
  for (const KernelParameter &parameter : program.kernels[launch.kernel].parameters) {
    if (parameter.kind != KernelParameter::Kind::pointer)
      continue;
    if (parameter.is_const == is_const)
      buffers.push_back(launch.pointers[pointer].buffer);
    ++pointer;
  }
  return buffers;
}

} // namespace

bool decides(const Step &step) {
  return std::holds_alternative<Conditional>(step.kind) ||
         std::holds_alternative<WhileLoop>(step.kind) || std::holds_alternative<Define>(step.kind);
}

namespace {

/// The buffers that a step reads, or those that it writes.
std::vector<uint32_t> touched(const Program &program, const Step &step, bool written) {
  if (const auto *launch = std::get_if<Launch>(&step.kind))
    return sorted_unique(launch_buffers(program, *launch, !written));
  std::vector<uint32_t> buffers;
  const auto add = [&](std::string_view, const auto &operand, bool is_written) {
    if (is_written == written)
      buffers.push_back(operand.buffer);
  };
  std::visit([&](const auto &kind) { visit_fields(kind, OperandVisitor(add)); }, step.kind);
  return sorted_unique(std::move(buffers));
}

} // namespace

std::vector<uint32_t> reads(const Program &program, const Step &step) {
  return touched(program, step, false);
}

std::vector<uint32_t> writes(const Program &program, const Step &step) {
  return touched(program, step, true);
}

int64_t shared_bytes(const Program &program) {
  int64_t most = 0;
  for (const Kernel &kernel : program.kernels)
    if (kernel.cuda.shared_bytes.is_integer())
      most = std::max(most, kernel.cuda.shared_bytes.value());
  return most;
}

std::map<std::string, int64_t> group_sizes(const Program &program) {
  std::map<std::string, int64_t> sizes;
  for (const Step &step : program.steps)
    if (const auto *collective = std::get_if<Collective>(&step.kind)) {
      int64_t &size = sizes[collective->group];
      if (size == 0)
        size = collective->ranks;
    }
  return sizes;
}

} // namespace tsc::program
