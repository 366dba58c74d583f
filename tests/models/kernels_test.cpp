// The zoo's kernels compile for a GPU too: what this machine can tell of the CUDA device.
#include "codegen/generate.h"
#include "driver/compile.h"
#include "graph/read.h"
#include "testing/catch.h"
#include "testing/nvrtc.h"

#include <filesystem>
#include <map>
#include <regex>

using namespace tsc;

TEST_CASE("the zoo's kernels compile for sm_90 without spills") {
  constexpr size_t kKernelsAUnit = 32;      // the prelude is parsed once for all of them
  std::map<std::string, std::string> texts; // models share kernels
  for (const auto &entry : std::filesystem::directory_iterator(
           std::filesystem::path(TSC_UNPACKED_DIR) / "graphs" / "zoo")) {
    const driver::Compilation compilation =
        driver::compile(graph::read_graph((entry.path() / "default.pt2").string()), {});
    for (const program::Kernel &kernel : compilation.program.kernels)
      texts.emplace(kernel.name, kernel.cuda.text);
  }
  REQUIRE(texts.size() > 100);
  std::string unit;
  size_t count = 0, left = texts.size();
  for (const auto &[name, text] : texts) {
    unit += text;
    --left;
    if (++count < kKernelsAUnit && left > 0)
      continue;
    const testing::NvrtcUnit compiled = testing::compile_with_nvrtc(unit, "sm_90");
    INFO(compiled.log);
    CHECK_FALSE(std::regex_search(compiled.log, std::regex("[1-9][0-9]* bytes spill")));
    CHECK(compiled.log.find("warning") == std::string::npos);
    unit.clear();
    count = 0;
  }
}
