// Threads whose rows are others' read what these have stored already: what they find is no index.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

/// Sums of rows at sorted places, which take over the places' memory; sums are no places.
testing::MadeGraph sums_at_places(int64_t rows, int64_t columns) {
  testing::MadeGraph graph;
  graph.name = "sums at places";
  graph.inputs = {{"x", "float32", {rows}}, {"t", "int64", {rows, columns}, 100000, 200000}};
  graph.calls = json::array({{"s", "aten.sort.default", {"$x"}},
                             {"p", "operator.getitem", {"$s", 1}},
                             {"g", "aten.index_select.default", {"$t", 0, "$p"}},
                             {"y", "aten.sum.dim_IntList", {"$g", {1}}}});
  graph.outputs = {"y"};
  return graph;
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const auto &[rows, columns] : {std::pair<int64_t, int64_t>{1001, 8}, {77, 40}, {3001, 3}}) {
    const testing::MadeGraph graph = sums_at_places(rows, columns);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(columns);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("threads without rows of their own find no failures") { check_all(testing::host_ways()); }

TEST_CASE("threads without rows of their own find no failures on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
