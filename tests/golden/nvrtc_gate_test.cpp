// Every kernel of the sample graphs compiles for two architectures without a warning or a spill,
// stays within its registers, and accesses memory as its plan says.
#include "codegen/generate.h"
#include "golden_kernels.h"
#include "testing/catch.h"
#include "testing/nvrtc.h"

#include <map>
#include <regex>
#include <sstream>

using namespace tsc;

namespace {

constexpr size_t kKernelsAUnit = 16; // the prelude is parsed once for all of them
constexpr int kMostRegisters = 128;
constexpr int kRegistersOfBlock = 65536;

/// Parts of `text` that follow a line which `heading` finds a kernel's name in, by that name.
std::map<std::string, std::string> by_kernel(const std::string &text, const std::regex &heading) {
  std::map<std::string, std::string> result;
  std::istringstream lines(text);
  std::string line, name;
  while (std::getline(lines, line)) {
    std::smatch match;
    if (std::regex_search(line, match, heading))
      name = match[1];
    if (!name.empty())
      result[name] += line + "\n";
  }
  return result;
}

void check_kernel(const program::Kernel &kernel, const std::string &log, const std::string &ptx) {
  INFO(kernel.cuda.text << log);
  CHECK(log.find(" 0 bytes spill stores, 0 bytes spill loads") != std::string::npos);
  std::smatch match;
  REQUIRE(std::regex_search(log, match, std::regex("Used ([0-9]+) registers")));
  const int registers = std::stoi(match[1]);
  const bool tensor_cores = kernel.plan.find("tensor cores") != std::string::npos;
  CHECK(registers <= (tensor_cores ? 255 : kMostRegisters)); // sums of whole tiles are registers
  CHECK(registers * kernel.cuda.block[0] <= kRegistersOfBlock);
  if (kernel.plan.find("16-byte accesses") == std::string::npos)
    return;
  const std::string sixteen = "\\.global(\\.nc|\\.cs)?\\.(v4\\.[bfsu]32|v2\\.[bfsu]64)";
  CHECK(std::regex_search(ptx, std::regex("(ld|st)" + sixteen)));
  const std::string &text = kernel.cuda.text;
  if (text.find("tc_load_vec<") != std::string::npos ||
      text.find("tc_stream_vec<") != std::string::npos)
    CHECK(std::regex_search(ptx, std::regex("ld\\.global(\\.nc|\\.cs)?\\.v[24]\\.")));
}

void check_unit(const std::vector<program::Kernel> &kernels, const std::string &arch) {
  std::string text;
  for (const program::Kernel &kernel : kernels)
    text += kernel.cuda.text;
  const testing::NvrtcUnit unit = testing::compile_with_nvrtc(text, arch);
  CHECK(unit.log.find("warning") == std::string::npos);
  const auto logs = by_kernel(unit.log, std::regex("Compiling entry function '([^']+)'"));
  const auto bodies = by_kernel(unit.ptx, std::regex("\\.entry ([A-Za-z0-9_]+)\\("));
  for (const program::Kernel &kernel : kernels) {
    INFO(kernel.name << " for " << arch);
    REQUIRE(logs.count(kernel.name) == 1);
    REQUIRE(bodies.count(kernel.name) == 1);
    check_kernel(kernel, logs.at(kernel.name), bodies.at(kernel.name));
  }
}

} // namespace

TEST_CASE("golden kernels compile for sm_80 and sm_90 without spills") {
  std::map<std::string, program::Kernel> by_name; // graphs share kernels
  for (const test::GoldenGraph &graph : test::golden_graphs())
    for (program::Kernel &kernel : test::compile_golden(graph).kernels)
      by_name.emplace(kernel.name, kernel);
  REQUIRE(by_name.size() > test::golden_graphs().size());
  std::vector<program::Kernel> unit;
  size_t left = by_name.size();
  for (auto &[name, kernel] : by_name) {
    unit.push_back(kernel);
    if (--left > 0 && unit.size() < kKernelsAUnit)
      continue;
    for (const char *arch : {"sm_80", "sm_90"})
      check_unit(unit, arch);
    unit.clear();
  }
}
