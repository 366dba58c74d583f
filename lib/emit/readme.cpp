#include "emit/readme.h"

#include "emit/model_name.h"
#include "support/text.h"

#include <unordered_set>

namespace tsc::emit {
namespace {

/// Table cells end at |; names of nodes may hold anything.
std::string cell(const std::string &text) {
  std::string result;
  for (char c : text)
    result += c == '|' || static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return result;
}

std::string shape(const tensor::Layout &layout, const symbolic::SymbolWriter &name_of) {
  std::vector<std::string> sizes;
  for (symbolic::Expr size : layout.sizes)
    sizes.push_back(symbolic::print(size, name_of));
  return "[" + support::join(sizes, ", ") + "]";
}

std::string signature(const program::Program &program) {
  const symbolic::SymbolWriter name_of = program::symbol_writer(program.symbols);
  std::string text = "| tensor | dtype | shape | |\n|---|---|---|---|\n";
  for (const program::InputInfo &input : program.inputs) {
    const program::Buffer &buffer = program.buffers[input.buffer];
    text += "| input `" + cell(input.name) + "` | " +
            std::string(tensor::short_name(buffer.dtype)) + " | " +
            (input.value ? "an integer: " + symbolic::print(*input.value, name_of)
                         : shape(buffer.layout, name_of)) +
            " | " + (input.mutated ? "mutated" : "") + " |\n";
  }
  for (const program::OutputInfo &output : program.outputs)
    if (output.buffer < 0)
      text += "| output `" + cell(output.name) + "` | | | constant " + cell(output.text) + " |\n";
    else
      text += "| output `" + cell(output.name) + "` | " +
              std::string(tensor::short_name(output.dtype)) + " | " +
              shape(output.layout, name_of) + " | " +
              (output.is_mutation ? "shows a mutated tensor" : "") + " |\n";
  for (const program::Symbol &symbol : program.symbols)
    text += "| symbol `" + name_of(symbol.symbol) + "` | | | " + std::to_string(symbol.low) +
            " to " + (symbol.high == INT64_MAX ? "any" : std::to_string(symbol.high)) + " |\n";
  return text;
}

std::string kernels(std::span<const program::Program> plans) {
  std::string text = "| kernel | plan | from |\n|---|---|---|\n";
  std::unordered_set<std::string> seen;
  for (const program::Program &program : plans)
    for (const program::Kernel &kernel : program.kernels)
      if (seen.insert(kernel.name).second)
        text += "| [" + kernel.name + "](kernels/" + kernel.name + ".cu) | " + cell(kernel.plan) +
                " | " + cell(support::join(kernel.origins, ", ")) + " |\n";
  return text;
}

} // namespace

std::string readme(std::span<const program::Program> plans, bool has_weights) {
  const program::Program &program = plans.front();
  const std::string name = model_name(program.name);
  std::string text =
      "# " + cell(program.name) +
      "\n\nA model as C++ and CUDA, written by tsc. It builds alone:\n\n"
      "```\ncmake -S . -B ../build [-DTSC_DEVICE=cuda|host]\ncmake --build ../build\n"
      "../build/run_model --weights weights.safetensors\n```\n\n";
  text += "This gives `libtsc_" + name + ".so` with the C ABI of `tsc_model.h`, which `" + name +
          "_model()` of `" + name +
          "_model.h` gives (`tsc_model.hpp` is the same for C++ programs); "
          "`run_model.cpp` shows its use. After `cmake --install ../build` other projects say "
          "`find_package(" +
          name + ")` and link `" + name + "::" + name +
          "`; or they take this folder with `add_subdirectory`. "
          "On a GPU, kernels are compiled by nvcc if there is one at build time, else by NVRTC "
          "when weights are "
          "loaded";
  bool has_matmul = false, has_solver = false, has_transform = false;
  for (const program::Step &step : program.steps) {
    has_matmul |= std::holds_alternative<program::Matmul>(step.kind);
    if (const auto *solver = std::get_if<program::Solver>(&step.kind))
      (tsc_engine::is_transform(solver->routine) ? has_transform : has_solver) = true;
  }
  if (has_matmul)
    text += "; matrix products go to cuBLASLt, on the host to CBLAS";
  if (has_solver)
    text += "; linear algebra goes to cuSOLVER, on the host to LAPACK (OpenBLAS)";
  if (has_transform)
    text += "; Fourier transforms go to cuFFT, on the host to code of the engine";
  text += ".\n";
  if (!has_weights)
    text += "\nThe folder has no weights: give them as a .safetensors file with the names in "
            "`model.cpp`.\n";
  text += "\n## Signature\n\n" + signature(program);
  if (plans.size() > 1) {
    std::vector<std::string> archs;
    for (const program::Program &plan : plans)
      archs.push_back(plan.archs.empty() ? "" : plan.archs.front());
    text += "\n## Plans\n\nOne for each of " + support::join(archs, ", ") +
            "; a device runs its own, else the newest that is not newer than it and fits.\n";
  }
  if (!program.kernels.empty())
    text += "\n## Kernels\n\n" + kernels(plans);
  text +=
      "\n## Files\n\n"
      "- `kernels/`: one file per kernel, as the GPU gets it; `kernels/serial/`: the same "
      "computation as plain "
      "loops for the host; `kernels/units/`: what is compiled together\n"
      "- `prelude/`: what kernels include\n"
      "- `model.cpp`: buffers, steps and signature as tables; `engine/`: what runs them\n"
      "- `program.json`: the same program for `tsc run` (`program_ARCH.json`: its further plans)\n";
  return text;
}

} // namespace tsc::emit
