// Short rows of which a thread takes a tile: windows of convolutions and pools, and other rows
// whose neighbours are neighbours in memory, of sizes for which the GPU has threads enough.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  testing::MadeGraph graph;
  std::string plan;        // that a kernel's text names
  bool is_dynamic = false; // also with a first dimension of any size
};

json convolution(const char *x, const json &stride, const json &padding, const json &dilation,
                 bool transposed, int64_t groups) {
  const json zeros = json(std::vector<int64_t>(stride.size(), 0));
  return {"y",
          "aten.convolution.default",
          {x, "$w", "$b", stride, padding, dilation, transposed, zeros, groups}};
}

/// x [N, H, W, C] as the channels-last image c [N, C, H, W].
const json kChannelsLast = {"c", "aten.permute.default", {"$x", {0, 3, 1, 2}}};

std::vector<Case> cases() {
  const auto one = [](const std::string &target, const json &arguments) {
    return json::array({{"y", target, arguments}});
  };
  return {
      {{"channels last, 7 x 7",
        {{"x", "bfloat16", {4, 36, 36, 64}},
         {"w", "bfloat16", {64, 1, 7, 7}},
         {"b", "bfloat16", {64}}},
        {kChannelsLast, convolution("$c", {1, 1}, {3, 3}, {1, 1}, false, 64)},
        {"y"}},
       "8 neighbours of 2 rows along",
       true},
      {{"channels last, stride 2, a prime number of positions",
        {{"x", "float32", {6, 75, 75, 32}},
         {"w", "float32", {32, 1, 3, 3}},
         {"b", "float32", {32}}},
        {kChannelsLast, convolution("$c", {2, 2}, {0, 0}, {1, 1}, false, 32)},
        {"y"}},
       "4 neighbours of"},
      {{"contiguous, a prime number of rows, ReLU",
        {{"x", "float16", {2, 64, 37, 41}},
         {"w", "float16", {64, 1, 3, 3}},
         {"b", "float16", {64}}},
        {convolution("$x", {1, 1}, {1, 1}, {1, 1}, false, 64), {"r", "aten.relu.default", {"$y"}}},
        {"r"}},
       "rows along",
       true},
      {{"contiguous, dilated taps",
        {{"x", "float32", {2, 64, 40, 41}},
         {"w", "float32", {64, 1, 3, 5}},
         {"b", "float32", {64}}},
        {convolution("$x", {1, 1}, {2, 4}, {2, 2}, false, 64)},
        {"y"}},
       ""},
      {{"channels last, dilated taps, a prime number of rows",
        {{"x", "bfloat16", {6, 61, 47, 12}},
         {"w", "bfloat16", {12, 1, 5, 3}},
         {"b", "bfloat16", {12}}},
        {kChannelsLast, convolution("$c", {1, 1}, {4, 3}, {2, 3}, false, 12)},
        {"y"}},
       " apart, that share "},
      {{"three dimensions, dilated taps",
        {{"x", "float32", {3, 5, 18, 19, 25}},
         {"w", "float32", {5, 1, 3, 3, 3}},
         {"b", "float32", {5}}},
        {convolution("$x", {1, 1, 1}, {2, 2, 2}, {2, 2, 2}, false, 5)},
        {"y"}},
       "2 apart, that share "},
      {{"two channels a group",
        {{"x", "float16", {2, 64, 38, 40}},
         {"w", "float16", {64, 2, 3, 3}},
         {"b", "float16", {64}}},
        {convolution("$x", {1, 1}, {1, 1}, {1, 1}, false, 32)},
        {"y"}},
       "rows along"},
      {{"three dimensions",
        {{"x", "float32", {1, 32, 9, 30, 31}},
         {"w", "float32", {32, 1, 3, 3, 3}},
         {"b", "float32", {32}}},
        {convolution("$x", {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, false, 32)},
        {"y"}},
       "rows along"},
      {{"one dimension",
        {{"x", "float16", {4, 64, 2003}}, {"w", "float16", {64, 1, 9}}, {"b", "float16", {64}}},
        {convolution("$x", {1}, {4}, {1}, false, 64)},
        {"y"}},
       ""},
      {{"transposed, channels last",
        {{"x", "float16", {4, 20, 20, 64}},
         {"w", "float16", {64, 1, 4, 4}},
         {"b", "float16", {64}}},
        {kChannelsLast, convolution("$c", {2, 2}, {1, 1}, {1, 1}, true, 64)},
        {"y"}},
       ""},
      {{"maximum of windows",
        {{"x", "float16", {2, 64, 75, 75}}},
        one("aten.max_pool2d.default", {"$x", {3, 3}, {2, 2}, {1, 1}}),
        {"y"}},
       "rows along"},
      {{"windows that share one element",
        {{"x", "float16", {40, 64, 15, 22}}},
        one("aten._adaptive_avg_pool2d.default", {"$x", {7, 7}}),
        {"y"}},
       "rows along"},
      {{"means of windows, channels last",
        {{"x", "bfloat16", {4, 37, 37, 48}}},
        {kChannelsLast, {"y", "aten.avg_pool2d.default", {"$c", {3, 3}, {1, 1}, {1, 1}}}},
        {"y"}},
       "neighbours"},
      {{"any height",
        {{"x", "float32", {83, 41, 64}}, {"w", "float32", {64, 1, 3, 3}}, {"b", "float32", {64}}},
        {{"p", "aten.permute.default", {"$x", {2, 0, 1}}},
         {"c", "aten.unsqueeze.default", {"$p", 0}},
         convolution("$c", {1, 1}, {1, 1}, {1, 1}, false, 64)},
        {"y"}},
       "",
       true},
      {{"any height, a window of the maximum",
        {{"x", "float16", {1283, 64, 5}}},
        {{"p", "aten.permute.default", {"$x", {1, 0, 2}}},
         {"y", "aten.max_pool2d.default", {"$p", {3, 1}, {1, 1}, {1, 0}}}},
        {"y"}},
       "",
       true},
      // The result may lie where the pool's was: no row is done twice.
      {{"a result over what it adds",
        {{"x", "float32", {2, 64, 37, 41}},
         {"w", "float32", {64, 1, 3, 3}},
         {"b", "float32", {64}}},
        {{"m", "aten.max_pool2d.default", {"$x", {5, 5}, {1, 1}, {2, 2}}},
         convolution("$x", {1, 1}, {1, 1}, {1, 1}, false, 64),
         {"z", "aten.add.Tensor", {"$y", "$m"}}},
        {"z"}},
       ""},
      {{"sum of middles",
        {{"x", "float16", {600, 24, 128}}},
        one("aten.sum.dim_IntList", {"$x", {1}}),
        {"y"}},
       "4 neighbours"},
      {{"positions in middles",
        {{"x", "int16", {3000, 9, 64}, -40, 40}},
        one("aten.argmax.default", {"$x", 1}),
        {"y"}},
       "4 neighbours",
       true},
      {{"moments of middles",
        {{"x", "float32", {2003, 16, 68}}},
        {{"y", "aten.var_mean.correction", {"$x", {1}}},
         {"v", "operator.getitem", {"$y", 0}},
         {"m", "operator.getitem", {"$y", 1}}},
        {"v", "m"}},
       "4 neighbours"},
      {{"any of middles", {{"x", "bool", {5000, 20, 64}}}, one("aten.any.dim", {"$x", 1}), {"y"}},
       "neighbours"},
      {{"logsumexp of middles and a scaled sum",
        {{"x", "float32", {5000, 12, 32}}, {"g", "float32", {5000, 32}}},
        {{"l", "aten.logsumexp.default", {"$x", {1}}}, {"z", "aten.mul.Tensor", {"$l", "$g"}}},
        {"z"}},
       ""},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &one : cases()) {
    INFO(one.graph.name);
    const driver::Compilation compilation = testing::compile_made(one.graph, false);
    bool is_named = false;
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels) {
      is_named = is_named || kernel.plan.find(one.plan) != std::string::npos;
      plans += kernel.plan + "\n";
    }
    INFO(plans);
    CHECK(is_named);
    testing::check_made(one.graph, compilation, 0, ways);
    if (!one.is_dynamic)
      continue;
    const driver::Compilation dynamic = testing::compile_made(one.graph, true);
    for (const int64_t size : {int64_t{2}, one.graph.inputs[0].sizes[0]})
      testing::check_made(one.graph, dynamic, size, ways);
  }
}

} // namespace

TEST_CASE("windows in tiles on the host") { check_all(testing::plan_ways()); }

TEST_CASE("windows in tiles on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
