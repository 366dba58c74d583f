// Attention in one kernel: every kind of tile (depths, groups of warps), rows and keys that fill no
// tile, masks in runs and by elements, grouped heads, long rows with many steps, a symbolic batch.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  int64_t depth, rows, keys;
  std::string mask; // its dtype; "": none
  bool causal = false;
  int64_t heads = 3, key_heads = 3;
  std::string dtype = "bfloat16";
};

testing::MadeGraph graph_of(const Case &each, int64_t batch) {
  testing::MadeGraph graph;
  graph.inputs = {{"q", each.dtype, {batch, each.heads, each.rows, each.depth}},
                  {"k", each.dtype, {batch, each.key_heads, each.keys, each.depth}},
                  {"v", each.dtype, {batch, each.key_heads, each.keys, each.depth}}};
  const json keywords = {{"is_causal", each.causal}, {"enable_gqa", each.heads != each.key_heads}};
  json arguments = {"$q", "$k", "$v"};
  graph.calls = json::array();
  if (each.mask == "bool") { // hides about half
    graph.inputs.push_back({"m", "bfloat16", {each.rows, each.keys}});
    graph.calls.push_back({"mask", "aten.gt.Scalar", {"$m", 0.0}});
    arguments.push_back("$mask");
  } else if (!each.mask.empty()) {
    graph.inputs.push_back({"m", each.mask, {1, each.heads, each.rows, each.keys}});
    arguments.push_back("$m");
  }
  graph.calls.push_back({"y", "aten.scaled_dot_product_attention.default", arguments, keywords});
  graph.outputs = {"y"};
  graph.name = "depth " + std::to_string(each.depth) + ", " + std::to_string(each.rows) + " x " +
               std::to_string(each.keys) + ", " + each.mask + (each.causal ? " causal" : "");
  return graph;
}

/// Without masks and with them; a compiler runs for each case.
std::vector<Case> small(const std::vector<int64_t> &depths, const std::vector<int64_t> &masked) {
  std::vector<Case> cases;
  for (const int64_t depth : depths) {
    cases.push_back({depth, 197, 131, ""});
    cases.push_back({depth, 130, 130, "", true});
  }
  for (const int64_t depth : masked) {
    cases.push_back({depth, 65, 77, "bfloat16"});
    cases.push_back({depth, 70, 136, "float32"});
    cases.push_back({depth, 200, 264, "bool"});
  }
  cases.push_back({64, 17, 1, ""});
  cases.push_back({64, 200, 300, "", true, 6, 2, "float16"});
  cases.push_back({128, 200, 100, "", true, 4, 1, "float16"});
  return cases;
}

/// More items than blocks, more steps than stages; small for the reference's sake.
std::vector<Case> large() {
  return {{64, 200, 500, "", false, 80, 20},
          {64, 200, 200, "", true, 80, 80},
          {128, 140, 300, "", false, 72, 8},
          {128, 300, 300, "", true, 48, 8, "float16"},
          {256, 140, 140, "", true, 72, 8}};
}

void check_all(const std::vector<Case> &cases, const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases) {
    const testing::MadeGraph graph = graph_of(each, 2);
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels)
      plans += kernel.plan + "\n";
    INFO(plans);
    CHECK(plans.find("groups of warps that compute") != std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// Query, key and value are slices of one tensor.
void check_batches(const std::vector<runtime::SessionOptions> &ways) {
  const testing::MadeGraph graph{"a batch that a run decides",
                                 {{"x", "bfloat16", {2, 3, 100, 3 * 64}}},
                                 {{"q", "aten.slice.Tensor", {"$x", 3, 0, 64}},
                                  {"k", "aten.slice.Tensor", {"$x", 3, 64, 128}},
                                  {"v", "aten.slice.Tensor", {"$x", 3, 128, 192}},
                                  {"y",
                                   "aten.scaled_dot_product_attention.default",
                                   {"$q", "$k", "$v"},
                                   {{"is_causal", true}}}},
                                 {"y"},
                                 {}};
  const driver::Compilation compilation = testing::compile_made(graph, true);
  for (const int64_t batch : {2, 3, 101})
    testing::check_made(graph, compilation, batch, ways);
}

} // namespace

TEST_CASE("attention of every depth and mask on the host") {
  check_all(small({40}, {128}), testing::host_ways());
}

TEST_CASE("attention of every depth and mask on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(small({8, 40, 64, 96, 128, 192, 256}, {64, 128, 256}), ways);
}

TEST_CASE("attention of more items than blocks on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(large(), ways);
}

TEST_CASE("attention of a batch whose size a run decides on the host") {
  check_batches(testing::host_ways());
}

TEST_CASE("attention of a batch whose size a run decides on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_batches(ways);
}
