// Products of 16-bit floats whose rows start anywhere, large enough to be filled up to whole
// vectors.
#include "made_graph.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;

namespace {

std::vector<testing::MadeGraph> graphs() {
  testing::MadeGraph linear{"terms that are odd, the right factor turned",
                            {{"x", "bfloat16", {1023, 1537}}, {"w", "bfloat16", {515, 1537}}},
                            {{"t", "aten.permute.default", {"$w", {1, 0}}},
                             {"p", "aten.mm.default", {"$x", "$t"}},
                             {"y", "aten.relu.default", {"$p"}}},
                            {"y"},
                            {}};
  testing::MadeGraph columns{"columns that are odd",
                             {{"x", "float16", {1000, 2048}}, {"w", "float16", {2048, 643}}},
                             {{"y", "aten.mm.default", {"$x", "$w"}}},
                             {"y"},
                             {}};
  testing::MadeGraph batch{"a batch, all odd",
                           {{"x", "bfloat16", {3, 801, 1001}}, {"w", "bfloat16", {3, 1001, 399}}},
                           {{"y", "aten.bmm.default", {"$x", "$w"}}},
                           {"y"},
                           {}};
  testing::MadeGraph turned{"rows that are odd, the left factor turned",
                            {{"x", "float16", {8, 72, 1021}}, {"w", "float16", {8, 72, 640}}},
                            {{"t", "aten.permute.default", {"$x", {0, 2, 1}}},
                             {"p", "aten.bmm.default", {"$t", "$w"}},
                             {"y", "aten.relu.default", {"$p"}}},
                            {"y"},
                            {}};
  return {linear, columns, batch, turned};
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const testing::MadeGraph &graph : graphs()) {
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const std::vector<graph::Node> &nodes = compilation.graph.nodes;
    CHECK(std::any_of(nodes.begin(), nodes.end(), [](const graph::Node &node) {
      return node.target == "aten.constant_pad_nd.default" ||
             node.target == "tsc.channels_innermost.default"; // a factor turned
    }));
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("products whose rows start anywhere on the host") { check_all(testing::plan_ways()); }

TEST_CASE("products whose rows start anywhere on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
