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
  } else if (auto *solver = std::get_if<program::Solver>(&step.kind)) {
    solver->a.buffer += buffers;
    solver->out.buffer += buffers;
    for (std::optional<program::Operand> *operand :
         {&solver->b, &solver->c, &solver->second, &solver->third, &solver->info})
      if (*operand)
        (*operand)->buffer += buffers;
  } else {
    auto &copy = std::get<program::Copy>(step.kind);
    copy.from.buffer += buffers;
    copy.to.buffer += buffers;
  }
  return step;
}

/// A kernel's text without the comment in front, which says what it came from.
std::string body_of(const std::string &text) {
  size_t at = 0;
  while (text.compare(at, 2, "//") == 0)
    at = text.find('\n', at) + 1;
  return text.substr(at);
}

bool same_launch(const program::Kernel &a, const program::Kernel &b) {
  const auto same = [](const program::KernelVariant &x, const program::KernelVariant &y) {
    return x.grid == y.grid && x.block == y.block && x.shared_bytes == y.shared_bytes;
  };
  return same(a.cuda, b.cuda) && same(a.serial, b.serial);
}

/// Gives the kernel another name, in its texts too, if a kernel of another text has its own.
void rename_taken(program::Kernel &kernel, std::map<std::string, uint32_t> &taken) {
  const std::string name = kernel.name;
  for (uint32_t i = 2; !taken.emplace(kernel.name, i).second; ++i)
    kernel.name = name + "_" + std::to_string(i);
  if (kernel.name == name)
    return;
  for (std::string *text : {&kernel.cuda.text, &kernel.serial.text})
    for (size_t at = 0; (at = text->find(name, at)) != std::string::npos; at += kernel.name.size())
      text->replace(at, name.size(), kernel.name);
}

} // namespace

Program merge_programs(const std::vector<Program> &programs) {
  Program merged;
  merged.archs = programs.empty() ? std::vector<std::string>{} : programs[0].archs;
  std::map<std::string, uint32_t> kernel_by_name;
  std::map<std::pair<std::string, std::string>, uint32_t> kernel_by_text;
  for (size_t number = 0; number < programs.size(); ++number) {
    const Program &program = programs[number];
    std::string prefix = "p" + std::to_string(number) + "_";
    uint32_t buffers = static_cast<uint32_t>(merged.buffers.size());
    uint32_t steps = static_cast<uint32_t>(merged.steps.size());
    std::vector<uint32_t> kernels;
    for (program::Kernel kernel : program.kernels) {
      const auto next = static_cast<uint32_t>(merged.kernels.size());
      // Texts hold the name: what is under another name is another kernel. The geometry may differ
      // under one text, and stands with each.
      const auto [place, inserted] = kernel_by_text.try_emplace(
          {body_of(kernel.cuda.text), body_of(kernel.serial.text)}, next);
      if (!inserted && same_launch(merged.kernels[place->second], kernel)) {
        kernels.push_back(place->second);
        continue;
      }
      if (inserted) {
        rename_taken(kernel, kernel_by_name);
      } else {
        const program::Kernel &first = merged.kernels[place->second];
        kernel.name = first.name;
        kernel.cuda.text = first.cuda.text;
        kernel.serial.text = first.serial.text;
      }
      merged.kernels.push_back(std::move(kernel));
      kernels.push_back(next);
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
