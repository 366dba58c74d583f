// What neighbours share: elements that read beside theirs in whole runs, windows of a tile in runs,
// elements one of each part, rows of the same elements, results of one reduction in one tensor.
#include "made_graph.h"
#include "testing/catch.h"

#include <algorithm>

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name;
  std::vector<testing::MadeInput> inputs;
  json calls;
  std::vector<std::string> outputs;
  std::string plan;                             // a part of some kernel's
  std::string arch = "sm_90:multiprocessors=1"; // whose plans for so few elements are large ones'
};

const std::string kRuns = "neighbours in whole runs", kWindows = "brought in runs of",
                  kParts = "one of each part", kBeside = "rows of the same elements";

json padded(const json &pads) {
  return json{{"p", "aten.constant_pad_nd.default", {"$x", pads, 0.5}},
              {"a", "aten.slice.Tensor", {"$p", 1, 0, 64}},
              {"b", "aten.slice.Tensor", {"$p", 1, 2, 66}},
              {"d", "aten.sub.Tensor", {"$b", "$a"}},
              {"y", "aten.add.Tensor", {"$d", "$x"}}};
}
json pooled(const char *operation, const json &arguments) {
  return json{{"y", operation, arguments}};
}
json depthwise(int64_t stride, int64_t padding, int64_t channels) {
  return json{{"y",
               "aten.convolution.default",
               {"$x",
                "$w",
                nullptr,
                {stride, stride},
                {padding, padding},
                {1, 1},
                false,
                {0, 0},
                channels}}};
}

std::vector<Case> cases() {
  std::vector<Case> result;
  for (const char *dtype : {"float32", "float16", "bfloat16", "float64"})
    result.push_back({std::string("before and behind, ") + dtype,
                      {{"x", dtype, {40, 64}}},
                      padded({1, 1}),
                      {"y"},
                      kRuns});
  result.push_back(
      {"further than a run", {{"x", "float32", {40, 64}}}, padded({5, 0}), {"y"}, kRuns});
  result.push_back({"in rows of two runs",
                    {{"x", "float32", {9, 30, 8}}},
                    {{"p", "aten.constant_pad_nd.default", {"$x", {1, 1, 2, 2}, 0.0}},
                     {"a", "aten.slice.Tensor", {"$p", 1, 0, 30}},
                     {"b", "aten.slice.Tensor", {"$a", 2, 2, 10}},
                     {"c", "aten.slice.Tensor", {"$p", 1, 4, 34}},
                     {"d", "aten.slice.Tensor", {"$c", 2, 0, 8}},
                     {"y", "aten.sub.Tensor", {"$b", "$d"}}},
                    {"y"},
                    kRuns});
  for (const char *dtype : {"float32", "float16"}) {
    const std::string of = std::string(", ") + dtype;
    result.push_back(
        {"largest of 3 x 3" + of,
         {{"x", dtype, {4, 6, 64, 64}}},
         {{"m", "aten.max_pool2d_with_indices.default", {"$x", {3, 3}, {1, 1}, {1, 1}}},
          {"y", "operator.getitem", {"$m", 0}}},
         {"y"},
         kWindows});
    result.push_back({"means of 5 x 5" + of,
                      {{"x", dtype, {4, 8, 64, 64}}},
                      pooled("aten.avg_pool2d.default", {"$x", {5, 5}, {1, 1}, {2, 2}}),
                      {"y"},
                      kWindows});
    result.push_back({"7 x 7 of a channel" + of,
                      {{"x", dtype, {2, 8, 56, 56}}, {"w", dtype, {8, 1, 7, 7}}},
                      depthwise(1, 3, 8),
                      {"y"},
                      kWindows});
    result.push_back(
        {"31 of a channel" + of,
         {{"x", dtype, {4, 8, 256}}, {"w", dtype, {8, 1, 31}}},
         {{"y", "aten.convolution.default", {"$x", "$w", nullptr, {1}, {15}, {1}, false, {0}, 8}}},
         {"y"},
         kWindows});
    result.push_back({"halves turned" + of,
                      {{"x", dtype, {300, 128}}, {"c", dtype, {128}}},
                      {{"q", "aten.mul.Tensor", {"$x", "$x"}},
                       {"s", "aten.mean.dim", {"$q", {-1}, true}},
                       {"i", "aten.div.Tensor", {"$x", "$s"}},
                       {"a", "aten.slice.Tensor", {"$i", 1, 0, 64}},
                       {"b", "aten.slice.Tensor", {"$i", 1, 64, 128}},
                       {"n", "aten.neg.default", {"$b"}},
                       {"r", "aten.cat.default", {{"$n", "$a"}, 1}},
                       {"m", "aten.mul.Tensor", {"$r", "$c"}},
                       {"y", "aten.add.Tensor", {"$i", "$m"}}},
                      {"y"},
                      kParts});
  }
  for (const int64_t channels : {32, 96}) // one half, and three, of a line of shared memory
    result.push_back(
        {"windows of " + std::to_string(channels) + " channels",
         {{"x", "float16", {2, channels, 20, 22}}, {"w", "float16", {32, channels, 3, 3}}},
         {{"y",
           "aten.convolution.default",
           {"$x", "$w", nullptr, {2, 2}, {1, 1}, {1, 1}, false, {0, 0}, 1}}},
         {"y"},
         "windows brought tap by tap",
         "sm_90"});
  result.push_back({"a tensor, its sine and its cosine",
                    {{"x", "float32", {300, 64}}},
                    {{"s", "aten.sin.default", {"$x"}},
                     {"c", "aten.cos.default", {"$x"}},
                     {"y", "aten.cat.default", {{"$s", "$c", "$x"}, 1}}},
                    {"y"},
                    kParts});
  result.push_back({"how many of a group are less",
                    {{"x", "float32", {30, 128}}},
                    {{"a", "aten.unsqueeze.default", {"$x", 2}},
                     {"b", "aten.unsqueeze.default", {"$x", 1}},
                     {"g", "aten.gt.Tensor", {"$a", "$b"}},
                     {"f", "prims.convert_element_type.default", {"$g", {{"dtype", "float32"}}}},
                     {"y", "aten.sum.dim_IntList", {"$f", {2}}}},
                    {"y"},
                    kBeside});
  return result;
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases()) {
    INFO(each.name);
    testing::MadeGraph graph{each.name, each.inputs, each.calls, each.outputs, {}};
    graph.arch = each.arch;
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const auto &kernels = compilation.program.kernels;
    CHECK(std::any_of(kernels.begin(), kernels.end(), [&](const auto &kernel) {
      return kernel.plan.find(each.plan) != std::string::npos;
    }));
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// Means and deviations of rows, and of windows, in one tensor.
std::vector<testing::MadeGraph> stacked() {
  const auto stack = [](json calls, std::vector<testing::MadeInput> inputs, const char *name) {
    for (json call : json{{"w", "aten.mul.Tensor", {"$s", 2.0}},
                          {"l", "aten.sub.Tensor", {"$m", "$w"}},
                          {"u", "aten.add.Tensor", {"$m", "$w"}},
                          {"y", "aten.stack.default", {{"$l", "$m", "$u"}}}})
      calls.push_back(call);
    return testing::MadeGraph{name, std::move(inputs), std::move(calls), {"y"}, {}};
  };
  const json rows = {{"m", "aten.mean.dim", {"$x", {1}}},
                     {"q", "aten.mul.Tensor", {"$x", "$x"}},
                     {"s", "aten.mean.dim", {"$q", {1}}}};
  const json windows = {{"q", "aten.mul.Tensor", {"$x", "$x"}},
                        {"m", "aten.avg_pool2d.default", {"$x", {1, 20}, {1, 1}}},
                        {"s", "aten.avg_pool2d.default", {"$q", {1, 20}, {1, 1}}}};
  return {stack(rows, {{"x", "float32", {600, 77}}}, "rows"),
          stack(windows, {{"x", "float32", {7, 3, 4, 161}}}, "windows")};
}
void check_stacked(const std::vector<runtime::SessionOptions> &ways) {
  for (const testing::MadeGraph &graph : stacked()) {
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    CHECK(compilation.program.steps.size() == 1);
    testing::check_made(graph, compilation, 0, ways);
  }
}

/// Divisors that are powers of two, and others, of numbers of every size.
testing::MadeGraph quotients(const char *dtype, double most) {
  return {"quotients",
          {{"x", dtype, {1000}, -most, most}},
          json{{"a", "aten.div.Tensor", {"$x", 2.0}},
               {"b", "aten.div.Tensor", {"$x", -0.125}},
               {"c", "aten.div.Tensor", {"$x", 3.0}},
               {"d", "aten.div.Tensor", {"$x", 4096}}},
          {"a", "b", "c", "d"},
          {}};
}

} // namespace

TEST_CASE("neighbours share what they read on the host") { check_all(testing::plan_ways()); }
TEST_CASE("neighbours share what they read on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}

TEST_CASE("what follows a reduction is stored side by side by its kernel on the host") {
  check_stacked(testing::plan_ways());
}
TEST_CASE("what follows a reduction is stored side by side by its kernel on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_stacked(ways);
}

TEST_CASE("functions of 16 bits are as near as those show on the GPU", "[gpu]") {
  const auto ways = testing::gpu_ways();
  for (const char *dtype : {"float16", "bfloat16"})
    for (const double most : {0.01, 1.0, 30.0})
      if (!ways.empty()) {
        const testing::MadeGraph graph{"functions",
                                       {{"x", dtype, {5000}, -most, most}},
                                       json{{"s", "aten.softplus.default", {"$x"}},
                                            {"t", "aten.tanh.default", {"$x"}},
                                            {"a", "aten.abs.default", {"$x"}},
                                            {"l", "aten.log1p.default", {"$a"}},
                                            {"m", "aten.mish.default", {"$x"}}},
                                       {"s", "t", "l", "m"},
                                       {}};
        testing::check_made(graph, testing::compile_made(graph, false), 0, ways);
      }
}

TEST_CASE("quotients by powers of two are products") {
  for (const char *dtype : {"float32", "float16", "float64"}) {
    const testing::MadeGraph graph = quotients(dtype, dtype[5] == '1' ? 6e4 : 1e6);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const std::string &text = compilation.program.kernels.front().cuda.text;
    CHECK(text.find("* 0.5") != std::string::npos);
    CHECK(text.find("* -8") != std::string::npos);
    CHECK(text.find("* 0.000244140625") != std::string::npos);
    CHECK(text.find("* 0.333") == std::string::npos);
    testing::check_made(graph, compilation, 0, testing::host_ways());
  }
}
