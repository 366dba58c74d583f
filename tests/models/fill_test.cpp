// Kernels of workloads that none was made for use the machine: what codegen's estimate says of
// them. And they take no more memory than PyTorch does. And plans are those on
// record: TSC_REFRESH_GOLDEN=1 writes plans.txt anew, and what its diff shows is to be measured.
#include "driver/compile.h"
#include "driver/memory_use.h"
#include "graph/read.h"
#include "testing/catch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

using namespace tsc;

namespace {

constexpr double kLeastShare = 0.6;

/// Graphs with kernels that stay below, and why.
const std::map<std::string, std::string> &exceptions() {
  static const std::map<std::string, std::string> list = {
      {"convnext_tiny", "49 taps of 16-bit floats: conversions beside the multiplications"},
      {"depthwise3", "masks, addresses and conversions of nine taps and a long epilogue"},
      {"depthwise7_nhwc", "49 taps of 16-bit floats: conversions beside the multiplications"},
      {"diffusion_block", "weights of a layer norm are asked for by every row beside its elements"},
      {"efficientnet_b0", "taps of 16-bit floats; sums over small images in few blocks"},
      {"embedding_backward", "sorting 65,536 indices takes what one of its few blocks takes"},
      {"gpt2_train", "the targets of the loss are looked up by one block"},
      {"mlp_train", "the targets of the loss are looked up by one block"},
      {"resnet_train", "a maximum's windows and, backward, nine taps of each element are asked"},
      {"short_rows", "what eight threads do for a row of 17 besides its elements (measured: 46%)"},
  };
  return list;
}

/// Of PyTorch, in MiB: the lower of TorchInductor's peak and eager mode's.
const std::map<std::string, double> &peaks() {
  static const std::map<std::string, double> list = {
#define TSC_PEAK(name, inductor, eager) {#name, std::min(inductor, eager)},
#include "peaks.def"
#undef TSC_PEAK
  };
  return list;
}

/// Graphs here that have fewer layers than those that were measured.
bool is_shallow(const std::string &name) { return name == "gpt2_train" || name == "mlp_train"; }

/// Graphs that need more memory than PyTorch does, and why.
const std::map<std::string, std::string> &above_peak() {
  static const std::map<std::string, std::string> list = {
      {"stem7x7", "what is pooled is stored as it lies, and then turned"},
  };
  return list;
}

void check_roof(const std::string &name, const program::Program &program, size_t &kernels) {
  double least = 1;
  std::string report;
  for (const program::Kernel &kernel : program.kernels) {
    const program::KernelEstimate &estimate = kernel.estimate;
    if (!estimate.is_known)
      continue;
    ++kernels;
    least = std::min(least, estimate.share());
    char line[160];
    std::snprintf(line, sizeof line,
                  "%3.0f%%: memory %.1f us, arithmetic %.1f; accesses %.1f, instructions %.1f, "
                  "latency %.1f\n  ",
                  estimate.share() * 100, estimate.memory * 1e-3, estimate.arithmetic * 1e-3,
                  estimate.accesses * 1e-3, estimate.instructions * 1e-3, estimate.latency * 1e-3);
    if (estimate.share() < kLeastShare)
      report += line + kernel.name + "\n  " + kernel.plan + "\n";
  }
  INFO(name << "\n" << report);
  const auto exception = exceptions().find(name);
  if (exception == exceptions().end()) {
    CHECK(least >= kLeastShare);
  } else { // else its line is to go
    INFO(exception->second);
    CHECK(least < kLeastShare);
  }
}

/// PyTorch's peaks are whole MiB.
void check_peak(const std::string &name, const program::Program &program, size_t &compared) {
  const auto known = peaks().find(name);
  if (known == peaks().end() || is_shallow(name))
    return;
  ++compared;
  const auto memory = driver::memory_use(program);
  REQUIRE(memory);
  const double peak = static_cast<double>(memory->workspace + memory->outputs) / (1 << 20);
  const bool is_more = peak > std::max(known->second * 1.02, known->second + 1);
  INFO(name << ": " << peak << " MiB, PyTorch " << known->second);
  CHECK(is_more == (above_peak().count(name) > 0));
}

/// Of each graph that is one workload and no model, a line for each kernel: its plan.
std::string plans_of_workloads() {
  constexpr size_t kFewKernels = 8;
  driver::CompileOptions options;
  options.arch = "sm_90:gigabytes_per_second=4800"; // the device of docs/performance.md's tables
  std::map<std::string, std::string> plans;         // in the order of names
  for (const auto &entry : std::filesystem::directory_iterator(
           std::filesystem::path(TSC_UNPACKED_DIR) / "graphs" / "wide")) {
    const program::Program program =
        driver::compile(graph::read_graph(entry.path().string()), options).program;
    if (program.kernels.size() > kFewKernels)
      continue;
    std::string &lines = plans[entry.path().stem().string()];
    for (const program::Kernel &kernel : program.kernels)
      lines += "  " + kernel.plan + "\n";
  }
  std::string text;
  for (const auto &[name, lines] : plans)
    text += name + "\n" + lines;
  return text;
}

} // namespace

TEST_CASE("plans of the wide graphs are those on record") {
  const std::string path = TSC_SOURCE_DIR "/tests/models/plans.txt", plans = plans_of_workloads();
  const char *refresh = std::getenv("TSC_REFRESH_GOLDEN");
  if (refresh != nullptr && *refresh == '1')
    std::ofstream(path, std::ios::binary) << plans;
  std::ifstream file(path, std::ios::binary);
  std::stringstream known;
  known << file.rdbuf();
  std::istringstream have(plans), want(known.str());
  std::string now, before, name;
  while (std::getline(have, now)) {
    std::getline(want, before);
    name = now.rfind(' ', 0) == 0 ? name : now;
    INFO("of " << name << ": measure it and write plans.txt anew (TSC_REFRESH_GOLDEN=1)");
    REQUIRE(now == before);
  }
  CHECK(!std::getline(want, before));
}

TEST_CASE("kernels of the wide graphs reach their share of the roof, in PyTorch's memory") {
  size_t graphs = 0, kernels = 0, compared = 0;
  for (const auto &entry : std::filesystem::directory_iterator(
           std::filesystem::path(TSC_UNPACKED_DIR) / "graphs" / "wide")) {
    const std::string name = entry.path().stem().string();
    const driver::Compilation compilation =
        driver::compile(graph::read_graph(entry.path().string()), {});
    ++graphs;
    check_roof(name, compilation.program, kernels);
    check_peak(name, compilation.program, compared);
  }
  CHECK(graphs >= 50);
  CHECK(kernels >= 300);
  CHECK(compared >= 50);
}
