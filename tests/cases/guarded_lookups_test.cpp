// What is looked up and then not taken is not looked up: where the condition is of the place, not
// of elements along it.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

/// Rows of a table at places that are there, where one mask or two say so.
testing::MadeGraph masked_rows(const std::vector<int64_t> &mask, const json &calls) {
  testing::MadeGraph graph;
  graph.name = "masked rows";
  graph.inputs = {{"w", "float32", {50, 37}},
                  {"i", "int64", {23, 9}, 0, 49},
                  {"m", "bool", mask},
                  {"n", "bool", mask}};
  graph.calls = calls;
  graph.outputs = {"y"};
  return graph;
}

void check(const testing::MadeGraph &graph, bool guards,
           const std::vector<runtime::SessionOptions> &ways) {
  const driver::Compilation compilation = testing::compile_made(graph, false);
  REQUIRE(compilation.program.kernels.size() == 1);
  const std::string &text = compilation.program.kernels[0].cuda.text;
  INFO(text);
  CHECK((text.find(" ? tc_get(in") != std::string::npos ||
         text.find("tc_load_where") != std::string::npos) == guards);
  testing::check_made(graph, compilation, 0, ways);
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  const json of_rows = {{"e", "aten.embedding.default", {"$w", "$i"}},
                        {"z", "aten.full.default", {json::array(), 0.0}},
                        {"o", "aten.full.default", {json::array(), -1.5}},
                        {"k", "aten.where.self", {"$m", "$e", "$z"}}};
  json one = of_rows, two = of_rows;
  one.push_back({"y", "aten.mul.Tensor", {"$k", 2.0}});
  two.push_back({"y", "aten.where.self", {"$n", "$k", "$o"}});
  check(masked_rows({23, 9, 1}, one), true, ways);
  check(masked_rows({23, 9, 1}, two), true, ways);
  check(masked_rows({23, 9, 37}, one), false, ways); // runs along the rows stay whole
}

} // namespace

TEST_CASE("lookups that are not taken are not made on the host") {
  check_all(testing::plan_ways());
}

TEST_CASE("lookups that are not taken are not made on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
