// Elements of 16 bits along rows that no run divides, read at other places than they are stored at:
// runs of what is stored go on from one row to the next.
#include "made_graph.h"
#include "testing/catch.h"

#include <string>

using namespace tsc;

namespace {

std::vector<testing::MadeGraph> graphs() {
  return {
      {"padded, and what follows",
       {{"x", "float16", {8, 8, 28, 28}}, {"b", "float16", {8, 1, 1}}},
       {{"p", "aten.constant_pad_nd.default", {"$x", {1, 2, 1, 2}, 0.5}},
        {"y", "aten.add.Tensor", {"$p", "$b"}}},
       {"y"},
       {}},
      {"cropped",
       {{"x", "bfloat16", {8, 8, 27, 27}}},
       {{"y", "aten.constant_pad_nd.default", {"$x", {-3, -3, -3, -3}}}},
       {"y"},
       {}},
      {"rows hardly longer than a run: it ends rows, planes and images",
       {{"x", "float16", {256, 2, 1, 7}}},
       {{"y", "aten.constant_pad_nd.default", {"$x", {1, 1}}}},
       {"y"},
       {}},
      {"the outermost loop is not asked for, but the next one's end is met",
       {{"x", "float16", {9, 1, 11}}},
       {{"e", "aten.expand.default", {"$x", {128, 9, 8, 11}}}, {"y", "aten.clone.default", {"$e"}}},
       {"y"},
       {}},
      {"rows shorter than a run",
       {{"x", "bfloat16", {64, 8, 9, 9}}},
       {{"y", "aten.constant_pad_nd.default", {"$x", {-1, -1, -1, -1}}}},
       {"y"},
       {}},
      {"planes one behind the other: parts are stretches of memory",
       {{"a", "float16", {4, 8, 21, 21}}, {"b", "float16", {4, 16, 21, 21}}},
       {{"y", "aten.cat.default", {{"$a", "$b"}, 1}}},
       {"y"},
       {}},
      {"parts that no run divides",
       {{"a", "bfloat16", {512, 5, 7, 7}}, {"b", "bfloat16", {512, 3, 7, 7}}},
       {{"p", "aten.cat.default", {{"$a", "$b"}, 1}}, {"y", "aten.relu.default", {"$p"}}},
       {"y"},
       {}},
      {"a part of a row, not from its start",
       {{"x", "float16", {512, 67}}},
       {{"s", "aten.slice.Tensor", {"$x", 1, 3, 64}}, {"y", "aten.clone.default", {"$s"}}},
       {"y"},
       {}}};
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const testing::MadeGraph &graph : graphs()) {
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    REQUIRE(compilation.program.kernels.size() == 1);
    const std::string &plan = compilation.program.kernels[0].plan;
    INFO(plan);
    CHECK(plan.find("one element an access") == std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("runs go on from row to row on the host") { check_all(testing::plan_ways()); }

TEST_CASE("runs go on from row to row on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
