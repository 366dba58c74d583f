// Convolutions in groups: their plans, any number of samples, what is no number.
#include "convolution_problem.h"
#include "made_graph.h"
#include "program/program.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>

using namespace tsc;
using nlohmann::json;
using testing::check_compiled;
using testing::count_of;
using testing::graph_of;
using testing::Sizes;
using Problem = testing::ConvolutionProblem;

TEST_CASE("groups of 16-bit channels are a batch of products that reads windows") {
  // `beside`: of 8, 16 or 32 channels so many share a line of 64, and a tile; 1: they do not.
  for (const auto &[channels, outputs, groups, beside] :
       {std::tuple{int64_t{48}, int64_t{48}, int64_t{2}, int64_t{1}},
        {64, 128, 4, 4},
        {96, 48, 6, 4},
        {64, 192, 2, 2},
        {80, 200, 5, 1}, // 40 columns
        {256, 256, 32, 8},
        {64, 256, 8, 8},
        {64, 320, 8, 1},
        {130, 130, 13, 1}}) {
    Problem p;
    p.dtype = "float16";
    p.batch = 3;
    p.channels = channels;
    p.outputs = outputs;
    p.groups = groups;
    p.sizes = {11, 9};
    p.kernel = {3, 2};
    p.stride = {2, 1};
    p.padding = {1, 0};
    p.dilation = {1, 1};
    p.more = {0, 0};
    p.bias = p.after_relu = true;
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const std::string many = ", " + std::to_string(groups) + " products, " +
                             (beside > 1 ? std::to_string(beside) + " beside" : "");
    INFO(channels << " channels in " << groups << " groups");
    size_t products = 0;
    for (const program::Kernel &kernel : compilation.program.kernels)
      products += kernel.plan.find("product, ") == 0 &&
                          kernel.name.find("windows") != std::string::npos &&
                          kernel.plan.find(many) != std::string::npos
                      ? 1
                      : 0;
    const bool whole = channels / groups % 8 == 0; // runs of 16 bytes
    CHECK(products == (whole ? 1 : 0));
    for (const program::Kernel &kernel : compilation.program.kernels)
      CHECK((beside > 1 || kernel.plan.find("beside each other") == std::string::npos));
    for (const program::Step &step : compilation.program.steps)
      CHECK((!whole || !std::holds_alternative<program::Matmul>(step.kind)));
    check_compiled(p, graph, compilation, testing::host_ways());
  }
}

TEST_CASE("groups of float32 channels are products that read windows, whose terms blocks share") {
  // `shares`: few tiles, many terms. `products`: one, or one of each phase of a transposed one.
  struct Case {
    int64_t channels, outputs, groups;
    Sizes sizes, kernel, stride;
    bool transposed;
    int products;
    bool shares;
  };
  for (const Case &c : {Case{40, 128, 2, {4, 3, 5}, {3, 3, 3}, {1, 1, 1}, false, 1, true},
                        {40, 128, 2, {4, 3, 5}, {3, 3, 3}, {1, 1, 1}, true, 1, true},
                        {48, 192, 3, {6, 7}, {5, 4}, {2, 1}, false, 1, true},
                        {256, 256, 4, {5, 6}, {4, 4}, {2, 2}, true, 4, true},
                        {64, 128, 2, {40}, {17}, {1}, false, 1, true},
                        {32, 128, 2, {40, 41}, {3, 3}, {1, 1}, false, 1, false},
                        {30, 32, 2, {9, 9}, {3, 3}, {1, 1}, false, 0, false},      // no whole runs
                        {64, 48, 2, {19, 19}, {3, 3}, {1, 1}, false, 0, false}}) { // few columns
    Problem p;
    p.dtype = "float32";
    p.rank = c.sizes.size();
    p.batch = 2;
    p.channels = c.channels;
    p.outputs = c.outputs;
    p.groups = c.groups;
    p.sizes = c.sizes;
    p.kernel = c.kernel;
    p.stride = c.stride;
    p.padding = p.dilation = Sizes(p.rank, 1);
    p.more = Sizes(p.rank, 0);
    p.transposed = c.transposed;
    p.bias = p.after_relu = true;
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(p.text());
    int products = 0, shared = 0;
    for (const program::Kernel &kernel : compilation.program.kernels)
      if (kernel.plan.find("product, ") == 0 &&
          kernel.plan.find("left operand read where it comes from") != std::string::npos) {
        ++products;
        shared += kernel.plan.find("blocks share the terms") != std::string::npos ? 1 : 0;
      }
    CHECK(products == c.products);
    CHECK(shared == (c.shares ? c.products : 0));
    for (const program::Step &step : compilation.program.steps)
      CHECK((c.products == 0 || !std::holds_alternative<program::Matmul>(step.kind)));
    check_compiled(p, graph, compilation, testing::host_ways());
  }
}

namespace {

/// Groups of any number of samples: products that read windows, or of one tap what lies there; of
/// 1, 2 and 5 samples in each of `ways`.
void check_any_batch(const std::vector<runtime::SessionOptions> &ways) {
  struct Case {
    std::string dtype;
    int64_t channels, outputs, groups;
    Sizes sizes, kernel, stride;
    bool transposed;
    int products;
  };
  for (const Case &c :
       {Case{"float16", 48, 48, 2, {11, 9}, {3, 2}, {2, 1}, false, 1},
        {"float16", 128, 128, 2, {10, 9}, {3, 3}, {1, 1}, false, 1}, // by bulk copies
        {"bfloat16", 64, 128, 4, {9, 10}, {3, 3}, {1, 2}, false, 1}, // 4 beside each other
        {"float16", 64, 64, 8, {9, 10}, {3, 3}, {1, 1}, false, 1},
        {"float16", 64, 128, 2, {9, 10}, {1, 1}, {1, 1}, false, 1},
        {"float16", 64, 32, 2, {4, 5, 6}, {2, 3, 2}, {1, 1, 1}, true, 1},
        {"float16", 64, 64, 2, {5, 6}, {4, 4}, {2, 2}, true, 4},
        {"float32", 80, 64, 2, {9, 8}, {5, 5}, {1, 1}, false, 1},
        {"float32", 80, 64, 2, {9, 8}, {5, 5}, {1, 1}, true, 1}}) {
    Problem p;
    p.dtype = c.dtype;
    p.rank = c.sizes.size();
    p.batch = 4;
    p.channels = c.channels;
    p.outputs = c.outputs;
    p.groups = c.groups;
    p.sizes = c.sizes;
    p.kernel = c.kernel;
    p.stride = c.stride;
    p.padding = Sizes(p.rank, count_of(c.kernel) > 1 ? 1 : 0);
    p.dilation = Sizes(p.rank, 1);
    p.more = Sizes(p.rank, 0);
    p.transposed = c.transposed;
    p.bias = p.after_relu = true;
    testing::MadeGraph graph = graph_of(p);
    graph.least = 1;
    const driver::Compilation compilation = testing::compile_made(graph, true);
    INFO(p.text());
    int products = 0;
    for (const program::Kernel &kernel : compilation.program.kernels)
      products +=
          kernel.plan.find("product, ") == 0 &&
                  (kernel.name.find("windows") != std::string::npos || count_of(c.kernel) == 1)
              ? 1
              : 0;
    CHECK(products == c.products);
    for (const program::Step &step : compilation.program.steps)
      CHECK(!std::holds_alternative<program::Matmul>(step.kind));
    for (const int64_t batch : {1, 2, 5}) {
      p.batch = batch;
      check_compiled(p, graph_of(p), compilation, ways);
    }
  }
}

} // namespace

TEST_CASE("groups of any number of samples are products that read windows") {
  check_any_batch(testing::host_ways());
}

TEST_CASE("groups of any number of samples are products that read windows, on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_any_batch(ways);
}

TEST_CASE("blocks that share the terms of products of floats, on the GPU", "[gpu]") {
  const auto ways = testing::gpu_ways();
  // Results that lie along the rows, or in runs of columns; tiles of all sizes; TF32, too.
  for (const auto &[batch, outputs, relu, tf32] :
       {std::tuple{int64_t{2}, int64_t{64}, false, "off"},
        {2, 72, true, "off"},
        {3, 256, true, "off"},
        {9, 512, false, "off"},
        {3, 256, true, "conv"}}) {
    Problem p;
    p.dtype = "float32";
    p.batch = batch;
    p.channels = 80;
    p.outputs = outputs;
    p.groups = 2;
    p.sizes = {8, 7};
    p.kernel = {5, 5};
    p.padding = {2, 2};
    p.stride = p.dilation = {1, 1};
    p.more = {0, 0};
    p.bias = true;
    p.after_relu = relu;
    p.tf32 = tf32;
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(p.text());
    CHECK(std::any_of(compilation.program.kernels.begin(), compilation.program.kernels.end(),
                      [](const program::Kernel &kernel) {
                        return kernel.plan.find("share the terms") != std::string::npos;
                      }));
    if (!ways.empty())
      check_compiled(p, graph, compilation, ways);
  }
}

namespace {

testing::MadeGraph group_of_nan() {
  testing::MadeGraph graph;
  graph.name = "a group of NaN";
  graph.inputs = {{"x", "float16", {2, 16, 9, 8}}, {"w", "float16", {48, 16, 3, 3}}};
  graph.calls = {{"a", "aten.sub.Tensor", {"$x", "$x"}},
                 {"n", "aten.div.Tensor", {"$a", "$a"}},
                 {"c", "aten.cat.default", {{"$n", "$x", "$x"}, 1}},
                 {"y", "aten.conv2d.default", {"$c", "$w", nullptr, {1, 1}, {1, 1}, {1, 1}, 3}},
                 {"r", "aten.slice.Tensor", {"$y", 1, 16, 48}},
                 {"e", "aten.isnan.default", {"$r"}},
                 {"s", "aten.any.default", {"$e"}}};
  graph.outputs = {"y", "s"};
  return graph;
}

} // namespace

TEST_CASE("what is no number stays in its group of channels") {
  const testing::MadeGraph graph = group_of_nan();
  testing::check_made(graph, testing::compile_made(graph, false), 0, testing::host_ways());
}

TEST_CASE("what is no number stays in its group of channels on the GPU", "[gpu]") {
  const testing::MadeGraph graph = group_of_nan();
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    testing::check_made(graph, testing::compile_made(graph, false), 0, ways);
}
