// Every kernel of the sample graphs compiles for two architectures without a warning or a spill,
// stays within its registers, and accesses memory as its plan says.
#include "codegen/generate.h"
#include "driver/compile.h"
#include "driver/operators_folder.h"
#include "golden_kernels.h"
#include "graph/read.h"
#include "target/target.h"
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

void check_kernel(const program::Kernel &kernel, const std::string &log, const std::string &ptx,
                  const std::string &arch) {
  INFO(kernel.cuda.text << log);
  // Planned for wgmma: templates_gate_test.cpp says what it may cost without.
  const bool groups = kernel.plan.find("groups of warps") != std::string::npos;
  if (groups && arch == "sm_80")
    return;
  CHECK(log.find(" 0 bytes spill stores, 0 bytes spill loads") != std::string::npos);
  std::smatch match;
  REQUIRE(std::regex_search(log, match, std::regex("Used ([0-9]+) registers")));
  const int registers = std::stoi(match[1]);
  const bool tensor_cores = groups || kernel.plan.find("tensor cores") != std::string::npos;
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
    check_kernel(kernel, logs.at(kernel.name), bodies.at(kernel.name), arch);
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

TEST_CASE("a plan for every architecture fits it and compiles for it") {
  for (const target::Target &target : target::targets()) {
    driver::CompileOptions options;
    options.arch = target.name;
    std::map<std::string, program::Kernel> by_name;
    for (const char *path : {"graphs/anchors/gpt2/model.pt2", "graphs/anchors/mlp_gelu/model.json",
                             "graphs/anchors/softmax/model.json"})
      for (program::Kernel &kernel :
           driver::compile(graph::read_graph(std::string(TSC_SOURCE_DIR) + "/" + path), options)
               .program.kernels)
        by_name.emplace(kernel.name, kernel);
    std::string text;
    for (const auto &[name, kernel] : by_name) {
      INFO(name << " for " << target.name);
      const auto [x, y, z] = kernel.cuda.block;
      CHECK(x * y * z <= target.max_threads_per_block);
      REQUIRE(kernel.cuda.shared_bytes.is_integer());
      CHECK(kernel.cuda.shared_bytes.value() <= target.shared_bytes_per_block);
      CHECK((target.has_wgmma || kernel.cuda.text.find("wgmma") == std::string::npos));
      text += kernel.cuda.text;
    }
    const testing::NvrtcUnit unit = testing::compile_with_nvrtc(text, target.name);
    const auto logs = by_kernel(unit.log, std::regex("Compiling entry function '([^']+)'"));
    CHECK(logs.size() == by_name.size());
    for (const auto &[name, log] : logs) {
      INFO(name << " for " << target.name << ": " << log);
      std::smatch match;
      REQUIRE(std::regex_search(log, match, std::regex("Used ([0-9]+) registers")));
      const int registers = std::stoi(match[1]);
      const auto [x, y, z] = by_name.at(name).cuda.block;
      CHECK(registers * x * y * z <= target.registers_per_multiprocessor);
      if (std::regex_search(log, match, std::regex("([0-9]+) bytes smem")))
        CHECK(std::stoi(match[1]) + by_name.at(name).cuda.shared_bytes.value() <=
              target.shared_bytes_per_block);
    }
  }
}

TEST_CASE("kernels of users compile for sm_80 and sm_90 as all others do") {
  const std::string folder = std::string(TSC_SOURCE_DIR) + "/graphs/custom_operators/";
  driver::CompileOptions options;
  options.operators = driver::read_operators(folder + "operators");
  for (const char *name : {"fused_rope", "wkv"}) {
    const program::Program program =
        driver::compile(graph::read_graph(folder + name + "/model.pt2"), options).program;
    for (const char *arch : {"sm_80", "sm_90"})
      check_unit(program.kernels, arch);
  }
}
