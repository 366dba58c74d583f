#include "emit/kernel_files.h"

#include "codegen/generate.h"
#include "support/text.h"

#include <algorithm>
#include <cctype>
#include <unordered_set>

namespace tsc::emit {
namespace {

/// A translation unit of this many kernels costs the headers once and still spreads over cores.
constexpr size_t kKernelsPerUnit = 16;

/// One kernel of each name, in order: the same content has the same name.
std::vector<const program::Kernel *> distinct_kernels(const program::Program &program) {
  std::vector<const program::Kernel *> distinct;
  std::unordered_set<std::string> seen;
  for (const program::Kernel &kernel : program.kernels)
    if (seen.insert(kernel.name).second)
      distinct.push_back(&kernel);
  return distinct;
}

using Kernels = std::vector<const program::Kernel *>;

size_t unit_count(const Kernels &kernels) {
  return (kernels.size() + kKernelsPerUnit - 1) / kKernelsPerUnit;
}

std::string with_prelude(const std::string &text) {
  if (text.find("#include \"tsc_prelude.h\"") != std::string::npos)
    return text;
  return "#include \"tsc_prelude.h\"\n\n" + text;
}

/// Each kernel's helpers have a scope of their own; kernels are extern "C". The prelude is outside
/// of all.
std::string unit_text(const Kernels &kernels, size_t unit, const std::string &folder,
                      const std::string &ending) {
  size_t first = unit * kKernelsPerUnit;
  size_t end = std::min(first + kKernelsPerUnit, kernels.size());
  std::vector<std::string_view> texts;
  for (size_t i = first; i < end; ++i)
    texts.emplace_back(kernels[i]->cuda.text); // both variants include the same
  std::string text = "// Kernels that are compiled together.\n" + codegen::prelude_includes(texts);
  for (size_t i = first; i < end; ++i) {
    const std::string &name = kernels[i]->name;
    text += "namespace tc_kernel_" + name + " {\n#include \"" + folder + name + ending + "\"\n}\n";
  }
  return text;
}

/// X-macros: TSC_KERNEL(name) by number, TSC_KERNEL_FILE(name) each once, TSC_UNIT(number),
/// TSC_PRELUDE(name without .h).
std::string kernel_list(const program::Program &program, const Kernels &kernels) {
  std::string text =
      "// Kernels by number, files of kernels, units of compilation, files of the prelude.\n"
      "#ifdef TSC_KERNEL\n";
  for (const program::Kernel &kernel : program.kernels)
    text += "TSC_KERNEL(" + kernel.name + ")\n";
  text += "#endif\n#ifdef TSC_KERNEL_FILE\n";
  for (const program::Kernel *kernel : kernels)
    text += "TSC_KERNEL_FILE(" + kernel->name + ")\n";
  text += "#endif\n#ifdef TSC_UNIT\n";
  for (size_t unit = 0; unit < unit_count(kernels); ++unit)
    text += "TSC_UNIT(" + std::to_string(unit) + ")\n";
  text += "#endif\n#ifdef TSC_PRELUDE\n";
  for (const codegen::PreludeFile &file : codegen::prelude_files())
    text += "TSC_PRELUDE(" + std::string(file.name.substr(0, file.name.find('.'))) + ")\n";
  return text + "#endif\n";
}

std::string cmake_list(const program::Program &program, const Kernels &kernels) {
  bool has_matmul = false;
  for (const program::Step &step : program.steps)
    has_matmul |= std::holds_alternative<program::Matmul>(step.kind);
  std::string text = "# What CMakeLists.txt needs to know of the program.\n";
  text += "set(TSC_MODEL_NAME " + library_name(program.name) + ")\n";
  std::string archs; // of GPUs
  for (const std::string &arch : program.archs)
    archs += arch == "host" ? "" : " " + arch;
  text += "set(TSC_PROGRAM_ARCHS" + archs + ")\n";
  text += std::string("set(TSC_HAS_MATMUL ") + (has_matmul ? "ON" : "OFF") + ")\n";
  text += "set(TSC_UNITS";
  for (size_t unit = 0; unit < unit_count(kernels); ++unit)
    text += " " + std::to_string(unit);
  return text + ")\n";
}

} // namespace

std::string library_name(const std::string &name) {
  std::string result;
  for (char c : name)
    result += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  // A letter first, and no clash with targets of the build.
  return "tsc_" + (result.empty() ? "model" : result);
}

void write_kernels(const program::Program &program, FolderWriter &writer) {
  Kernels kernels = distinct_kernels(program);
  for (const program::Kernel *kernel : kernels) {
    writer.write("kernels/" + kernel->name + ".cu", with_prelude(kernel->cuda.text));
    writer.write("kernels/serial/" + kernel->name + ".cpp", with_prelude(kernel->serial.text));
  }
  for (size_t unit = 0; unit < unit_count(kernels); ++unit) {
    std::string base = "kernels/units/unit_" + std::to_string(unit);
    writer.write(base + ".cu", unit_text(kernels, unit, "", ".cu"));
    writer.write(base + ".cpp", unit_text(kernels, unit, "../serial/", ".cpp"));
  }
  writer.write("kernels/kernels.def", kernel_list(program, kernels));
  writer.write("sources.cmake", cmake_list(program, kernels));
  for (const codegen::PreludeFile &file : codegen::prelude_files())
    writer.write("prelude/" + std::string(file.name), file.text);
}

} // namespace tsc::emit
