#include "merge_programs.h"

#include <map>

namespace tsc::testing {
namespace {

using program::Program;

void shift(program::MatrixOperand &operand, uint32_t buffers) { operand.buffer += buffers; }

program::Step shifted(program::Step step, uint32_t buffers, const std::vector<uint32_t> &kernels) {
  if (auto *launch = std::get_if<program::Launch>(&step.kind)) {
    launch->kernel = kernels[launch->kernel];
    for (program::Operand &pointer : launch->pointers)
      pointer.buffer += buffers;
  } else if (auto *matmul = std::get_if<program::Matmul>(&step.kind)) {
    shift(matmul->a, buffers);
    shift(matmul->b, buffers);
    shift(matmul->out, buffers);
    if (matmul->c)
      shift(*matmul->c, buffers);
  } else {
    auto &copy = std::get<program::Copy>(step.kind);
    copy.from.buffer += buffers;
    copy.to.buffer += buffers;
  }
  return step;
}

} // namespace

Program merge_programs(const std::vector<Program> &programs) {
  Program merged;
  merged.archs = programs.empty() ? std::vector<std::string>{} : programs[0].archs;
  std::map<std::string, uint32_t> kernel_by_name;
  for (size_t number = 0; number < programs.size(); ++number) {
    const Program &program = programs[number];
    std::string prefix = "p" + std::to_string(number) + "_";
    uint32_t buffers = static_cast<uint32_t>(merged.buffers.size());
    uint32_t steps = static_cast<uint32_t>(merged.steps.size());
    std::vector<uint32_t> kernels;
    for (const program::Kernel &kernel : program.kernels) {
      auto [place, inserted] =
          kernel_by_name.try_emplace(kernel.name, static_cast<uint32_t>(merged.kernels.size()));
      if (inserted)
        merged.kernels.push_back(kernel);
      kernels.push_back(place->second);
    }
    for (program::Buffer buffer : program.buffers) {
      buffer.name = prefix + buffer.name;
      if (buffer.alias_of >= 0)
        buffer.alias_of += static_cast<int32_t>(buffers);
      if (!buffer.weight.empty())
        buffer.weight = prefix + buffer.weight;
      merged.buffers.push_back(buffer);
    }
    for (program::Step step : program.steps) {
      for (uint32_t &wait : step.waits)
        wait += steps;
      merged.steps.push_back(shifted(std::move(step), buffers, kernels));
    }
    for (program::InputInfo input : program.inputs) {
      input.name = prefix + input.name;
      input.buffer += buffers;
      merged.inputs.push_back(input);
    }
    for (program::OutputInfo output : program.outputs) {
      output.name = prefix + output.name;
      if (output.buffer >= 0)
        output.buffer += buffers;
      merged.outputs.push_back(output);
    }
  }
  return merged;
}

} // namespace tsc::testing
