// Elements that move: tiles whose edges are several short dimensions, short innermost dimensions
// that lie apart, rows of odd length beside what they share.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name;
  std::vector<testing::MadeInput> inputs;
  json calls;
  std::vector<std::string> outputs;
  std::string plan; // of one kernel of the GPU's, a part of its text
};

constexpr const char *kTiles = "tiles of";

json clone(const std::string &of) {
  return {"y",
          "aten.clone.default",
          {of},
          {{"memory_format", {{"memory_format", "contiguous_format"}}}}};
}

std::vector<Case> tiles() {
  const auto permuted = [](const std::string &name, const std::string &dtype,
                           const std::vector<int64_t> &sizes, const std::vector<int64_t> &order) {
    return Case{name,
                {{"x", dtype, sizes}},
                {{"p", "aten.permute.default", {"$x", order}}, clone("$p")},
                {"y"},
                kTiles};
  };
  return {
      permuted("five dimensions", "float32", {3, 16, 5, 12, 64}, {4, 2, 0, 3, 1}),
      permuted("five odd dimensions", "float32", {3, 7, 5, 11, 67}, {4, 2, 0, 3, 1}),
      permuted("three short ones in a row", "float16", {4, 6, 3, 129}, {3, 0, 1, 2}),
      permuted("short where loads are neighbours", "bfloat16", {70, 5, 9, 8}, {2, 3, 1, 0}),
      permuted("bytes", "int8", {5, 40, 6, 33}, {3, 0, 2, 1}),
      permuted("doubles", "float64", {3, 9, 5, 24}, {3, 2, 0, 1}),
      {"an operand of a short dimension alone",
       {{"x", "float32", {3, 16, 5, 12, 64}}, {"b", "float32", {16}}},
       {{"p", "aten.permute.default", {"$x", {4, 2, 0, 3, 1}}},
        {"a", "aten.add.Tensor", {"$p", "$b"}},
        clone("$a")},
       {"y"},
       kTiles},
  };
}

void check_all(const std::vector<Case> &cases, const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases) {
    INFO(each.name);
    const testing::MadeGraph graph{each.name, each.inputs, each.calls, each.outputs, {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels)
      plans += kernel.plan + "\n";
    INFO(plans);
    CHECK(plans.find(each.plan) != std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("tiles of several dimensions on the host") { check_all(tiles(), testing::host_ways()); }

TEST_CASE("tiles of several dimensions on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(tiles(), ways);
}
