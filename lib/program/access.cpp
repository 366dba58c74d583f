// Which buffers a step touches.
#include "program/program.h"

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
         std::holds_alternative<WhileLoop>(step.kind);
}

std::vector<uint32_t> reads(const Program &program, const Step &step) {
  if (const auto *launch = std::get_if<Launch>(&step.kind))
    return sorted_unique(launch_buffers(program, *launch, true));
  if (const auto *matmul = std::get_if<Matmul>(&step.kind)) {
    std::vector<uint32_t> buffers = {matmul->a.buffer, matmul->b.buffer};
    if (matmul->c)
      buffers.push_back(matmul->c->buffer);
    return sorted_unique(std::move(buffers));
  }
  if (std::holds_alternative<Fill>(step.kind))
    return {};
  if (const auto *conditional = std::get_if<Conditional>(&step.kind))
    return conditional->predicate ? std::vector<uint32_t>{conditional->predicate->buffer}
                                  : std::vector<uint32_t>{};
  if (const auto *loop = std::get_if<WhileLoop>(&step.kind))
    return {loop->predicate.buffer};
  if (const auto *collective = std::get_if<Collective>(&step.kind))
    return {collective->from.buffer};
  return {std::get<Copy>(step.kind).from.buffer};
}

std::vector<uint32_t> writes(const Program &program, const Step &step) {
  if (const auto *launch = std::get_if<Launch>(&step.kind))
    return sorted_unique(launch_buffers(program, *launch, false));
  if (const auto *matmul = std::get_if<Matmul>(&step.kind))
    return {matmul->out.buffer};
  if (const auto *fill = std::get_if<Fill>(&step.kind))
    return {fill->to.buffer};
  if (const auto *collective = std::get_if<Collective>(&step.kind))
    return {collective->to.buffer};
  if (decides(step))
    return {};
  return {std::get<Copy>(step.kind).to.buffer};
}

int64_t world_size(const Program &program) {
  for (const Step &step : program.steps)
    if (const auto *collective = std::get_if<Collective>(&step.kind))
      return collective->ranks;
  return 1;
}

} // namespace tsc::program
