// Large kernels that read the same tensor in one launch, which get their blocks in turn: against
// each alone.
#include "made_graph.h"
#include "program/program.h"
#include "testing/catch.h"

using namespace tsc;

namespace {

using nlohmann::json;

json pool(const std::string &name, const std::string &target, int64_t kernel, int64_t stride,
          int64_t padding) {
  return {name, target, {"$x", {kernel, kernel}, {stride, stride}, {padding, padding}}};
}

/// Pools of one input that a GPU with one MiB of second-level cache does not hold, nor any kernel
/// of a launch of small ones; odd sizes, so that blocks are no multiples of each other.
testing::MadeGraph pools(const json &calls) {
  testing::MadeGraph graph{
      "pools", {{"x", "float16", {3, 5, 449, 467}}}, calls, {}, {}, false, json::object()};
  for (const json &call : calls)
    graph.outputs.push_back(call[0]);
  graph.arch = "sm_90:l2_mebibytes=1";
  return graph;
}

void check_together(const json &calls, const std::vector<runtime::SessionOptions> &ways) {
  const testing::MadeGraph graph = pools(calls);
  const driver::Compilation together = testing::compile_made(graph, false);
  REQUIRE(together.program.kernels.size() == 1);
  const program::Kernel &kernel = together.program.kernels[0];
  CHECK(kernel.plan.find("blocks in turn") != std::string::npos);
  CHECK(kernel.cuda.text.find("const int before0 = ") != std::string::npos);
  testing::check_made(graph, together, 0, ways);
}

const json kMaximum = pool("a", "aten.max_pool2d.default", 3, 2, 1),
           kMean = pool("b", "aten.avg_pool2d.default", 2, 2, 0),
           kWide = pool("c", "aten.avg_pool2d.default", 4, 4, 0);

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  check_together({kMaximum, kMean}, ways);
  check_together({kMean, kMaximum, kWide}, ways);
}

} // namespace

TEST_CASE("kernels that read one large tensor get their blocks in turn on the host") {
  check_all(testing::plan_ways());
}

TEST_CASE("kernels that read one large tensor get their blocks in turn on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}

TEST_CASE("what the cache holds, or what is read in another order, is not read together") {
  testing::MadeGraph graph = pools({kMaximum, kMean});
  graph.arch = "sm_90"; // 50 MiB
  CHECK(testing::compile_made(graph, false).program.kernels.size() == 2);
  graph = pools({kMaximum, {"s", "aten.sum.dim_IntList", {"$x", {0, 1}}}});
  for (const program::Kernel &kernel : testing::compile_made(graph, false).program.kernels)
    CHECK(kernel.plan.find("blocks in turn") == std::string::npos);
}
