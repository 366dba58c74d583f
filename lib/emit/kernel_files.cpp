#include "emit/kernel_files.h"

#include "emit/model_name.h"

#include "codegen/generate.h"
#include "support/text.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

namespace tsc::emit {
namespace {

/// A translation unit of this many kernels costs the headers once and still spreads over cores.
constexpr size_t kKernelsPerUnit = 16;

using Plans = std::span<const program::Program>;

/// A kernel and the numbers of the plans that have it.
struct PlannedKernel {
  const program::Kernel *kernel = nullptr;
  std::vector<size_t> plans;
};

/// One kernel of each name, in order: the same content has the same name.
std::vector<PlannedKernel> distinct_kernels(Plans plans) {
  std::vector<PlannedKernel> distinct;
  std::unordered_map<std::string, size_t> seen;
  for (size_t plan = 0; plan < plans.size(); ++plan)
    for (const program::Kernel &kernel : plans[plan].kernels) {
      const auto [at, is_new] = seen.emplace(kernel.name, distinct.size());
      if (is_new)
        distinct.push_back({&kernel, {}});
      PlannedKernel &row = distinct[at->second];
      if (row.plans.empty() || row.plans.back() != plan)
        row.plans.push_back(plan);
    }
  return distinct;
}

/// What is compiled together: kernels of the same plans.
struct Unit {
  std::vector<const program::Kernel *> kernels;
  std::vector<size_t> plans;
};

std::vector<Unit> units_of(const std::vector<PlannedKernel> &kernels) {
  std::vector<Unit> units;
  std::map<std::vector<size_t>, size_t> open; // by plans: the unit that takes more
  for (const PlannedKernel &row : kernels) {
    const auto [at, is_new] = open.emplace(row.plans, units.size());
    if (!is_new && units[at->second].kernels.size() == kKernelsPerUnit)
      at->second = units.size();
    if (at->second == units.size())
      units.push_back({{}, row.plans});
    units[at->second].kernels.push_back(row.kernel);
  }
  return units;
}

/// Without the lines of comments in front.
std::string_view code_of(const std::string &text) {
  size_t at = 0;
  while (text.compare(at, 2, "//") == 0 && text.find('\n', at) != std::string::npos)
    at = text.find('\n', at) + 1;
  return std::string_view(text).substr(at);
}

bool is_same(const program::Kernel &a, const program::Kernel &b) {
  return code_of(a.cuda.text) == code_of(b.cuda.text) &&
         code_of(a.serial.text) == code_of(b.serial.text);
}

std::string with_prelude(const std::string &text) {
  if (text.find("#include \"tsc_prelude.h\"") != std::string::npos)
    return text;
  return "#include \"tsc_prelude.h\"\n\n" + text;
}

/// Of a kernel that a user brought for GPUs alone nothing can be compiled for the host.
std::string serial_text(const program::Kernel &kernel) {
  if (!kernel.serial.text.empty())
    return with_prelude(kernel.serial.text);
  return "#error \"" + kernel.name + " has no host function: compile the graph again with one\"\n";
}

/// Each kernel's helpers have a scope of their own; kernels are extern "C". The prelude is outside
/// of all.
std::string unit_text(const Unit &unit, const std::string &folder, const std::string &ending) {
  std::vector<std::string_view> texts;
  for (const program::Kernel *kernel : unit.kernels)
    texts.emplace_back(ending == ".cu" ? kernel->cuda.text : kernel->serial.text);
  std::string text = "// Kernels that are compiled together.\n" + codegen::prelude_includes(texts);
  for (const program::Kernel *kernel : unit.kernels)
    text += "namespace tc_kernel_" + kernel->name + " {\n#include \"" + folder + kernel->name +
            ending + "\"\n}\n";
  return text;
}

/// X-macros: TSC_KERNEL(plan, name) by number, TSC_KERNEL_FILE(name) each once, TSC_UNIT(plan,
/// number), TSC_UNIT_FILE(number) each once, TSC_PRELUDE(name without .h).
std::string kernel_list(Plans plans, const std::vector<PlannedKernel> &kernels,
                        const std::vector<Unit> &units) {
  std::string text =
      "// Kernels by plan and number, files of kernels, units of compilation by plan, "
      "each unit, files of the prelude.\n"
      "#ifdef TSC_KERNEL\n";
  for (size_t plan = 0; plan < plans.size(); ++plan)
    for (const program::Kernel &kernel : plans[plan].kernels)
      text += "TSC_KERNEL(" + std::to_string(plan) + ", " + kernel.name + ")\n";
  text += "#endif\n#ifdef TSC_KERNEL_FILE\n";
  for (const PlannedKernel &row : kernels)
    text += "TSC_KERNEL_FILE(" + row.kernel->name + ")\n";
  text += "#endif\n#ifdef TSC_UNIT\n";
  for (size_t unit = 0; unit < units.size(); ++unit)
    for (const size_t plan : units[unit].plans)
      text += "TSC_UNIT(" + std::to_string(plan) + ", " + std::to_string(unit) + ")\n";
  text += "#endif\n#ifdef TSC_UNIT_FILE\n";
  for (size_t unit = 0; unit < units.size(); ++unit)
    text += "TSC_UNIT_FILE(" + std::to_string(unit) + ")\n";
  text += "#endif\n#ifdef TSC_PRELUDE\n";
  for (const codegen::PreludeFile &file : codegen::prelude_files())
    text += "TSC_PRELUDE(" + std::string(file.name.substr(0, file.name.find('.'))) + ")\n";
  return text + "#endif\n";
}

/// " sm_90 sm_80": the GPUs among what the plans are for.
std::string gpu_archs(Plans plans, const std::vector<size_t> &numbers) {
  std::string text;
  for (const size_t plan : numbers)
    for (const std::string &arch : plans[plan].archs)
      text += arch == "host" ? "" : " " + arch;
  return text;
}

std::string cmake_list(Plans plans, const std::vector<Unit> &units) {
  bool has_matmul = false, has_solver = false;
  std::vector<size_t> all;
  for (size_t plan = 0; plan < plans.size(); ++plan) {
    all.push_back(plan);
    for (const program::Step &step : plans[plan].steps) {
      has_matmul |= std::holds_alternative<program::Matmul>(step.kind);
      const auto *solver = std::get_if<program::Solver>(&step.kind);
      has_solver |= solver != nullptr && !tsc_engine::is_transform(solver->routine);
    }
  }
  std::string text = "# What CMakeLists.txt needs to know of the program.\n";
  text += "set(TSC_MODEL_NAME " + model_name(plans[0].name) + ")\n";
  text += "set(TSC_PROGRAM_ARCHS" + gpu_archs(plans, all) + ")\n";
  text += std::string("set(TSC_HAS_MATMUL ") + (has_matmul ? "ON" : "OFF") + ")\n";
  text += std::string("set(TSC_HAS_SOLVER ") + (has_solver ? "ON" : "OFF") + ")\n";
  text += "set(TSC_UNITS";
  for (size_t unit = 0; unit < units.size(); ++unit)
    text += " " + std::to_string(unit);
  text += ")\n# What each unit's plans are for.\n";
  for (size_t unit = 0; unit < units.size(); ++unit)
    text += "set(TSC_UNIT_" + std::to_string(unit) + "_ARCHS" +
            gpu_archs(plans, units[unit].plans) + ")\n";
  return text;
}

} // namespace

std::vector<program::Program> name_apart(std::span<const program::Program> plans) {
  std::vector<program::Program> named(plans.begin(), plans.end());
  std::unordered_map<std::string, const program::Kernel *> known;
  for (program::Program &plan : named)
    for (program::Kernel &kernel : plan.kernels) {
      const std::string given = kernel.name;
      for (size_t i = 2;; ++i) {
        const auto [at, is_new] = known.emplace(kernel.name, &kernel);
        if (is_new || is_same(*at->second, kernel))
          break;
        const std::string name = given + "_" + std::to_string(i);
        for (std::string *text : {&kernel.cuda.text, &kernel.serial.text})
          support::replace_all(*text, kernel.name, name);
        kernel.name = name;
      }
    }
  return named;
}

void write_kernels(std::span<const program::Program> plans, FolderWriter &writer) {
  const std::vector<PlannedKernel> kernels = distinct_kernels(plans);
  for (const PlannedKernel &row : kernels) {
    writer.write("kernels/" + row.kernel->name + ".cu", with_prelude(row.kernel->cuda.text));
    writer.write("kernels/serial/" + row.kernel->name + ".cpp", serial_text(*row.kernel));
  }
  const std::vector<Unit> units = units_of(kernels);
  for (size_t unit = 0; unit < units.size(); ++unit) {
    const std::string base = "kernels/units/unit_" + std::to_string(unit);
    writer.write(base + ".cu", unit_text(units[unit], "", ".cu"));
    writer.write(base + ".cpp", unit_text(units[unit], "../serial/", ".cpp"));
  }
  writer.write("kernels/kernels.def", kernel_list(plans, kernels, units));
  writer.write("sources.cmake", cmake_list(plans, units));
  for (const codegen::PreludeFile &file : codegen::prelude_files())
    writer.write("prelude/" + std::string(file.name), file.text);
}

} // namespace tsc::emit
