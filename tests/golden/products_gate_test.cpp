// Kernels of products of recorded cases compile for a GPU: what this machine can tell of types that
// a template is made for.
#include "case_archive.h"
#include "driver/compile.h"
#include "graph/read.h"
#include "testing/catch.h"
#include "testing/nvrtc.h"

#include <nlohmann/json.hpp>

#include <map>
#include <vector>

using namespace tsc;

TEST_CASE("kernels of products of recorded cases compile for sm_90") {
  constexpr size_t kKernelsAUnit = 16;      // the prelude is parsed once for all of them
  std::map<std::string, std::string> texts; // cases share kernels
  for (const char *family : {"products", "fused_products", "low_precision", "float8",
                             "scaled_products", "packed_products", "quantization"}) {
    for (const nlohmann::json &one :
         nlohmann::json::parse(testing::read_case_files(family).graphs)) {
      const driver::Compilation compilation =
          driver::compile(graph::parse_graph(one["model"].dump(), one["name"]), {});
      for (const program::Kernel &kernel : compilation.program.kernels)
        if (kernel.plan.rfind("product", 0) == 0)
          texts.emplace(kernel.name, kernel.cuda.text);
    }
  }
  REQUIRE(texts.size() > 20);
  std::string unit;
  std::vector<std::string> names;
  size_t left = texts.size();
  for (const auto &[name, text] : texts) {
    unit += text;
    names.push_back(name);
    if (--left > 0 && names.size() < kKernelsAUnit)
      continue;
    const std::string ptx = testing::compile_with_nvrtc(unit, "sm_90").ptx;
    for (const std::string &entry : names) {
      INFO(entry);
      CHECK(ptx.find(".entry " + entry + "(") != std::string::npos);
    }
    unit.clear();
    names.clear();
  }
}
