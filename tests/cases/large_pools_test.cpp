// Pools of so many elements that they go one dimension after the other: as all taps at once, which
// is what sizes that a run decides get.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

/// x as whole numbers, so that windows have several largest elements, and NaN in place of 0.
const json kWhole = {"f", "aten.floor.default", {"$x"}};
const json kQuotient = {"q", "aten.div.Tensor", {"$f", "$f"}};
const json kWithNan = {"n", "aten.mul.Tensor", {"$f", "$q"}};

std::vector<testing::MadeGraph> graphs() {
  const auto max_pool = [](const std::string &name, const std::string &dtype,
                           const std::vector<int64_t> &sizes, const char *x, json arguments) {
    const std::string rank = std::to_string(sizes.size() - 2);
    arguments.insert(arguments.begin(), x);
    return testing::MadeGraph{name,
                              {{"x", dtype, sizes, -9, 9}},
                              {kWhole,
                               kQuotient,
                               kWithNan,
                               {"y", "aten.max_pool" + rank + "d_with_indices.default", arguments},
                               {"v", "operator.getitem", {"$y", 0}},
                               {"i", "operator.getitem", {"$y", 1}}},
                              {"v", "i"}};
  };
  const auto avg_pool = [](const std::string &name, const std::vector<int64_t> &sizes,
                           json arguments) {
    const std::string rank = std::to_string(sizes.size() - 2);
    arguments.insert(arguments.begin(), "$x");
    return testing::MadeGraph{name,
                              {{"x", "float32", sizes}},
                              json::array({{"y", "aten.avg_pool" + rank + "d.default", arguments}}),
                              {"y"}};
  };
  return {
      max_pool("largest with NaN", "float16", {2, 7, 277, 279}, "$n", {{5, 5}, {1, 1}, {2, 2}}),
      max_pool("dilated", "float32", {2, 9, 331, 332}, "$n",
               {{5, 4}, {1, 2}, {2, 1}, {2, 1}, true}),
      max_pool("three dimensions", "float32", {2, 3, 57, 58, 59}, "$n",
               {{3, 3, 3}, {1, 1, 1}, {1, 0, 1}}),
      avg_pool("average of three dimensions", {2, 8, 57, 58, 59},
               {{4, 3, 3}, {1, 1, 2}, {1, 1, 0}, true, true}),
      {"gradient of averages",
       {{"g", "float32", {2, 7, 277, 279}}, {"x", "float32", {2, 7, 277, 279}}},
       json::array({{"y",
                     "aten.avg_pool2d_backward.default",
                     {"$g", "$x", {5, 5}, {1, 1}, {2, 2}, false, false, nullptr}}}),
       {"y"},
       {},
       true},
      {"gradient of largest",
       {{"x", "float32", {2, 3, 101, 103}}, {"g", "float32", {2, 3, 101, 103}}},
       {{"y", "aten.max_pool2d_with_indices.default", {"$x", {5, 5}, {1, 1}, {2, 2}}},
        {"i", "operator.getitem", {"$y", 1}},
        {"b",
         "aten.max_pool2d_with_indices_backward.default",
         {"$g", "$x", {5, 5}, {1, 1}, {2, 2}, {1, 1}, false, "$i"}}},
       {"b"},
       {},
       true},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const testing::MadeGraph &graph : graphs()) {
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false),
                              at_once = testing::compile_made(graph, true);
    if (graph.name != "gradient of largest")
      CHECK(compilation.program.steps.size() > at_once.program.steps.size());
    testing::check_made(graph, compilation, at_once, 0, ways);
  }
}

} // namespace

TEST_CASE("large pools go one dimension after the other on the host") {
  check_all(testing::plan_ways());
}

TEST_CASE("large pools go one dimension after the other on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}

TEST_CASE("where a window's largest lies, beside what all of them come to, on the host") {
  const testing::MadeGraph graph{"places beside a sum",
                                 {{"x", "float32", {1, 6, 7}}},
                                 {{"y", "aten.max_pool2d_with_indices.default", {"$x", {2, 2}}},
                                  {"v", "operator.getitem", {"$y", 0}},
                                  {"i", "operator.getitem", {"$y", 1}},
                                  {"s", "aten.sum.default", {"$v"}},
                                  {"m", "aten.mul.Tensor", {"$v", "$s"}},
                                  {"r", "aten.add.Tensor", {"$m", "$i"}}},
                                 {"r"},
                                 {}};
  testing::check_made(graph, testing::compile_made(graph, false), 0, testing::plan_ways());
}
