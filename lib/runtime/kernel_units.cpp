#include "runtime/kernel_units.h"

#include "codegen/generate.h"
#include "support/diagnostic.h"
#include "support/hash.h"
#include "support/thread_pool.h"

#include <algorithm>
#include <unordered_map>

namespace tsc::runtime {
namespace {

constexpr size_t kMostKernelsPerUnit = 16;

const std::string &kernel_text(const program::Kernel &kernel, Plan plan) {
  return plan == Plan::serial ? kernel.serial.text : kernel.cuda.text;
}

/// One kernel of each name.
std::vector<uint32_t> distinct_kernels(const program::Program &program, Plan plan) {
  std::vector<uint32_t> distinct;
  std::unordered_map<std::string, uint32_t> seen; // only looked up
  for (uint32_t i = 0; i < program.kernels.size(); ++i) {
    const auto [found, is_new] = seen.emplace(program.kernels[i].name, i);
    if (is_new)
      distinct.push_back(i);
    support::require(
        kernel_text(program.kernels[found->second], plan) == kernel_text(program.kernels[i], plan),
        "kernel units", "two kernels with different texts are called " + program.kernels[i].name);
  }
  return distinct;
}

/// Each kernel's helpers get a scope of their own; the prelude is outside of all.
std::string unit_text(const program::Program &program, Plan plan,
                      const std::vector<uint32_t> &kernels) {
  std::vector<std::string_view> texts;
  texts.reserve(kernels.size());
  for (const uint32_t kernel : kernels)
    texts.emplace_back(kernel_text(program.kernels[kernel], plan));
  std::string text = codegen::prelude_includes(texts);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const program::Kernel &kernel = program.kernels[kernels[i]];
    text += "namespace tc_kernel_" + std::to_string(i) + " {\n#line 1 \"" + kernel.name +
            ".cu\"\n" + kernel_text(kernel, plan) + "\n}\n";
  }
  return text;
}

/// `size` kernels a unit.
std::vector<KernelUnit> split(const program::Program &program, Plan plan,
                              const std::vector<uint32_t> &distinct, size_t size) {
  std::vector<KernelUnit> units;
  for (size_t first = 0; first < distinct.size(); first += size) {
    const auto begin = distinct.begin() + static_cast<std::ptrdiff_t>(first);
    KernelUnit unit;
    unit.kernels.assign(
        begin, begin + static_cast<std::ptrdiff_t>(std::min(size, distinct.size() - first)));
    unit.text = unit_text(program, plan, unit.kernels);
    units.push_back(std::move(unit));
  }
  return units;
}

} // namespace

std::vector<KernelUnit> make_kernel_units(const program::Program &program, Plan plan) {
  const std::vector<uint32_t> distinct = distinct_kernels(program, plan);
  const size_t per_core = (distinct.size() + support::parallelism() - 1) / support::parallelism();
  return split(program, plan, distinct, std::clamp<size_t>(per_core, 1, kMostKernelsPerUnit));
}

std::vector<KernelUnit> make_package_units(const program::Program &program, Plan plan) {
  return split(program, plan, distinct_kernels(program, plan), kMostKernelsPerUnit);
}

std::string identity_of(const std::vector<KernelUnit> &units) {
  support::ContentHash hash;
  for (const codegen::PreludeFile &file : codegen::prelude_files())
    hash.add(file.name).add(file.text);
  for (const KernelUnit &unit : units)
    hash.add(unit.text);
  return hash.hex();
}

} // namespace tsc::runtime
