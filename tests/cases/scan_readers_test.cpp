// Scans of columns and what is computed of each of their elements: one kernel stores only the
// latter, whatever the order in which its loops were written.
#include "made_graph.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name;
  std::vector<testing::MadeInput> inputs;
  json calls;
  std::vector<std::string> outputs;
  size_t alone; // elementwise kernels that stay
};

std::vector<Case> cases() {
  const std::vector<testing::MadeInput> tall = {{"x", "float32", {3, 2100, 37}},
                                                {"c", "float32", {3, 2100, 37}}};
  const auto scan = [](const char *target, int64_t dim) {
    return json{{"s", target, {"$x", dim}}, {"y", "aten.mul.Tensor", {"$s", "$c"}}};
  };
  return {
      {"long columns in parts", tall, scan("aten.cumsum.default", 1), {"y"}, 0},
      {"columns of a matrix",
       {{"x", "float32", {4099, 260}}, {"c", "float32", {4099, 260}}},
       scan("aten.cumsum.default", 0),
       {"y"},
       0},
      {"what is read once, by columns",
       {{"x", "bfloat16", {2, 2050, 72}}, {"c", "float32", {72}}},
       {{"f", "prims.convert_element_type.default", {"$x", {{"dtype", "float32"}}}},
        {"s", "aten.cumsum.default", {"$f", 1}},
        {"m", "aten.mul.Tensor", {"$s", "$c"}},
        {"y", "prims.convert_element_type.default", {"$m", {{"dtype", "bfloat16"}}}}},
       {"y"},
       0},
      {"the scan is a result too", tall, scan("aten.cumsum.default", 1), {"s", "y"}, 0},
      {"products of short columns",
       {{"x", "float32", {3, 300, 41}, 0.98, 1.02}, {"c", "float32", {3, 300, 41}}},
       scan("aten.cumprod.default", 1),
       {"y"},
       0},
      // Read across: elements that neighbouring threads have do not lie beside each other.
      {"what is read across",
       {{"x", "float32", {2112, 96}}, {"c", "float32", {96, 2112}}},
       {{"s", "aten.cumsum.default", {"$x", 0}},
        {"t", "aten.permute.default", {"$s", {1, 0}}},
        {"y", "aten.mul.Tensor", {"$t", "$c"}}},
       {"y"},
       1},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases()) {
    INFO(each.name);
    const testing::MadeGraph graph{each.name, each.inputs, each.calls, each.outputs, {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const auto &kernels = compilation.program.kernels;
    const auto alone = std::count_if(kernels.begin(), kernels.end(), [](const auto &kernel) {
      return kernel.plan.rfind("pointwise", 0) == 0;
    });
    CHECK(static_cast<size_t>(alone) == each.alone);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("what follows a scan of columns on the host") { check_all(testing::plan_ways()); }
TEST_CASE("what follows a scan of columns on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
