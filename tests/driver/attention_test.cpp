// When attention is one kernel, and that kernels are told apart by more than their text.
#include "driver/compile.h"
#include "graph/read.h"
#include "testing/catch.h"

#include <nlohmann/json.hpp>

using namespace tsc;
using nlohmann::json;

namespace {

/// One attention a batch size, each of a query that is key and value too: [batch, 2, 32, 16].
program::Program attentions(const std::vector<int64_t> &batches) {
  json nodes = json::array(), calls = json::array(), results = json::array();
  for (const int64_t batch : batches) {
    const std::string number = std::to_string(calls.size()), input = "x" + number;
    nodes.push_back({{"name", input},
                     {"op", "placeholder"},
                     {"val", {{"dtype", "bfloat16"}, {"size", {batch, 2, 32, 16}}}}});
    const json reference = {{"node", input}};
    calls.push_back({{"name", "y" + number},
                     {"op", "call_function"},
                     {"target", "aten.scaled_dot_product_attention.default"},
                     {"args", json::array({reference, reference, reference})}});
    results.push_back({{"node", "y" + number}});
  }
  nodes.insert(nodes.end(), calls.begin(), calls.end());
  nodes.push_back({{"name", "output"}, {"op", "output"}, {"args", json::array({results})}});
  const json graph = {{"format", "tsc-graph"}, {"version", 1}, {"nodes", nodes}};
  driver::CompileOptions options;
  options.arch = "sm_80"; // where a grid has a dimension for batches
  return driver::compile(graph::parse_graph(graph.dump(), "attentions"), options).program;
}

} // namespace

TEST_CASE("attentions of one text and two grids are two kernels") {
  const program::Program program = attentions({1, 3, 3});
  REQUIRE(program.steps.size() == 3);
  REQUIRE(program.kernels.size() == 2);
  CHECK(program.kernels[0].cuda.grid[2].is_integer(1));
  CHECK(program.kernels[1].cuda.grid[2].is_integer(3));
}

TEST_CASE("a batch that no grid holds is computed by products") {
  CHECK(attentions({65535}).steps.size() == 1);
  CHECK(attentions({65536}).steps.size() > 1);
}
