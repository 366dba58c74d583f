// Convolutions at random against their definition in float64: every way of computing them, inputs
// of the graph and values of its own.
#include "convolution_problem.h"
#include "driver/memory_use.h"
#include "made_graph.h"
#include "program/program.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <tuple>

using namespace tsc;
using nlohmann::json;
using testing::check_compiled;
using testing::count_of;
using testing::graph_of;
using testing::joined;
using testing::Sizes;
using Problem = testing::ConvolutionProblem;

namespace {

class Draw {
public:
  explicit Draw(uint64_t seed) : random_(seed) {}
  int64_t between(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random_);
  }
  int64_t one_of(const Sizes &list) {
    return list[static_cast<size_t>(between(0, static_cast<int64_t>(list.size()) - 1))];
  }

  Problem problem() {
    Problem p;
    p.dtype = between(0, 4) == 0 ? "float32" : between(0, 1) == 0 ? "float16" : "bfloat16";
    p.rank = static_cast<size_t>(one_of({1, 2, 2, 2, 3}));
    p.batch = between(1, 3);
    p.groups = one_of({1, 1, 1, 1, 2});
    p.channels = p.groups * one_of({1, 3, 4, 8, 16, 24});
    p.outputs = p.groups * one_of({5, 8, 16, 40});
    const bool apart = between(0, 2) == 0; // windows that do not overlap
    for (size_t i = 0; i < p.rank; ++i) {
      p.kernel.push_back(between(1, p.rank == 3 ? 2 : 4));
      p.stride.push_back(apart ? p.kernel[i] + between(0, 1) : between(1, 3));
      p.dilation.push_back(apart ? 1 : between(1, 2));
      p.padding.push_back(between(0, 2));
      p.sizes.push_back(p.dilation[i] * p.kernel[i] + between(0, p.rank == 3 ? 4 : 11));
    }
    p.after_relu = between(0, 1) == 0;
    p.bias = between(0, 1) == 0;
    p.more = Sizes(p.rank, 0);
    return p;
  }
  /// Mostly such as products' kernels take: of float32, and transposed.
  Problem product_problem() {
    Problem p;
    p.dtype = between(0, 3) != 0 ? "float32" : between(0, 1) == 0 ? "float16" : "bfloat16";
    p.transposed = between(0, 1) == 0;
    p.rank = static_cast<size_t>(one_of({1, 2, 2, 3}));
    p.batch = between(1, 3);
    p.groups = p.transposed ? one_of({1, 1, 1, 2, 3}) : 1;
    p.channels = p.groups * one_of({3, 4, 8, 12, 20, 40});
    p.outputs = p.groups * (p.groups == 1 ? one_of({5, 8, 16, 24, 136}) : one_of({1, 5, 8}));
    p.tf32 = between(0, 2) != 0 ? "off" : between(0, 1) == 0 ? "conv" : "on";
    for (size_t i = 0; i < p.rank; ++i) {
      p.kernel.push_back(between(p.rank == 3 ? 1 : 2, p.rank == 3 ? 3 : 5));
      p.stride.push_back(between(1, p.rank == 3 ? 2 : 3));
      p.dilation.push_back(between(0, p.transposed ? 2 : 5) == 0 ? between(2, 3) : 1);
      p.padding.push_back(between(0, std::min<int64_t>(2, p.kernel[i] - 1)));
      p.sizes.push_back(p.dilation[i] * p.kernel[i] + between(0, p.rank == 3 ? 3 : 9));
      p.more.push_back(p.transposed ? between(0, p.stride[i] - 1) : 0);
    }
    p.after_relu = between(0, 1) == 0;
    p.bias = between(0, 1) == 0;
    return p;
  }

  /// Such as bulk copies bring tap by tap: channels in whole lines of 128 bytes.
  Problem tap_problem() {
    Problem p;
    p.dtype = between(0, 1) == 0 ? "float16" : "bfloat16";
    p.rank = static_cast<size_t>(one_of({1, 2, 2, 2, 3}));
    p.batch = between(1, 4);
    p.channels = one_of({64, 64, 128});
    p.outputs = one_of({8, 24, 72, 136});
    for (size_t i = 0; i < p.rank; ++i) {
      p.kernel.push_back(between(1, 3));
      p.stride.push_back(between(1, 3));
      p.dilation.push_back(between(1, 2));
      p.padding.push_back(between(0, 2));
      p.sizes.push_back(p.dilation[i] * p.kernel[i] + between(0, p.rank == 3 ? 3 : 12));
    }
    p.after_relu = between(0, 1) == 0;
    p.bias = between(0, 1) == 0;
    p.more = Sizes(p.rank, 0);
    return p;
  }

  /// Such as bring what windows slide over once: in steps of one, weights that shared memory holds.
  Problem halo_problem() {
    Problem p;
    p.dtype = between(0, 1) == 0 ? "float16" : "bfloat16";
    p.rank = static_cast<size_t>(one_of({1, 2, 2, 2, 3}));
    p.batch = between(1, 3);
    p.channels = one_of({8, 16, 24, 32, 40, 48, 64, 80, 96, 128});
    p.outputs = one_of({5, 8, 16, 24, 32, 40, 64, 72, 96, 136});
    for (size_t i = 0; i < p.rank; ++i) {
      p.kernel.push_back(between(i == 0 ? 2 : 1, p.rank == 3 ? 3 : p.rank == 1 ? 9 : 5));
      p.stride.push_back(1);
      p.dilation.push_back(between(0, 3) == 0 ? between(2, 3) : 1);
      p.padding.push_back(between(0, p.kernel[i] / 2));
      const int64_t reach = p.dilation[i] * (p.kernel[i] - 1) - 2 * p.padding[i],
                    positions = between(0, 1) == 0 ? 8 * between(1, p.rank == 3 ? 2 : 5)
                                                   : between(1, p.rank == 3 ? 11 : 37);
      p.sizes.push_back(
          std::max<int64_t>(positions + reach, p.dilation[i] * (p.kernel[i] - 1) + 1));
    }
    p.after_relu = between(0, 1) == 0;
    p.bias = between(0, 1) == 0;
    p.more = Sizes(p.rank, 0);
    return p;
  }

  /// Several groups, from few channels each, of which many are one product, to whole lines.
  Problem group_problem() {
    Problem p = tap_problem();
    if (p.rank == 1) // not with channels innermost
      p.rank = 2;
    while (p.kernel.size() < p.rank) {
      p.kernel.push_back(between(1, 3));
      p.stride.push_back(between(1, 2));
      p.dilation.push_back(1);
      p.padding.push_back(between(0, 1));
      p.sizes.push_back(p.kernel.back() + between(0, 9));
    }
    p.more = Sizes(p.rank, 0);
    p.batch = between(1, 2);
    p.groups = one_of({2, 3, 4, 5, 6, 8, 16});
    p.channels = p.groups * one_of({4, 8, 12, 16, 16, 16, 24, 32, p.groups < 6 ? 64 : 32});
    p.outputs = p.groups * one_of({5, 8, 16, 24, 32, 48, p.groups < 5 ? 72 : 40});
    return p;
  }

  /// Few channels, as colours, whose lines are taken together.
  Problem line_problem() {
    Problem p;
    p.dtype = between(0, 1) == 0 ? "float16" : "bfloat16";
    p.rank = static_cast<size_t>(one_of({1, 2, 2, 2, 2, 3}));
    p.batch = between(1, 3);
    p.channels = one_of({1, 2, 3, 3, 3, 4});
    p.outputs = one_of({8, 24, 40, 72});
    for (size_t i = 0; i < p.rank; ++i) {
      p.kernel.push_back(between(p.rank == 3 ? 2 : 3, p.rank == 3 ? 3 : 7));
      p.stride.push_back(between(1, std::min<int64_t>(4, p.kernel[i])));
      p.dilation.push_back(i + 1 < p.rank ? between(1, 2) : 1);
      p.padding.push_back(between(0, 3));
      p.sizes.push_back(p.dilation[i] * p.kernel[i] + between(0, p.rank == 3 ? 4 : 14));
    }
    p.after_relu = between(0, 1) == 0;
    p.bias = between(0, 1) == 0;
    p.more = Sizes(p.rank, 0);
    return p;
  }

private:
  std::mt19937_64 random_;
};

void check_problem(const Problem &p, const std::vector<runtime::SessionOptions> &ways) {
  const testing::MadeGraph graph = graph_of(p);
  check_compiled(p, graph, testing::compile_made(graph, false), ways);
}

/// Of `count` convolutions, how many have one kernel that brings what windows slide over once; of
/// these, how many finish runs of rows.
std::pair<int, int> check_halos(uint64_t seed, int count,
                                const std::vector<runtime::SessionOptions> &ways) {
  Draw draw(seed);
  std::pair<int, int> found;
  for (int i = 0; i < count; ++i) {
    const Problem p = draw.halo_problem();
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    check_compiled(p, graph, compilation, ways);
    for (const program::Kernel &kernel : compilation.program.kernels)
      if (kernel.plan.find("slide over brought once") != std::string::npos) {
        ++found.first;
        found.second += kernel.plan.find("in runs of 8 rows") != std::string::npos ? 1 : 0;
      }
  }
  return found;
}

/// Of `count` convolutions, how many have windows that bulk copies bring.
int check_taps(uint64_t seed, int count, const std::vector<runtime::SessionOptions> &ways) {
  Draw draw(seed);
  int mapped = 0;
  for (int i = 0; i < count; ++i) {
    const Problem p = draw.tap_problem();
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    check_compiled(p, graph, compilation, ways);
    for (const program::Kernel &kernel : compilation.program.kernels)
      for (const program::TensorMap &map : kernel.cuda.maps)
        mapped += map.lower.empty() && map.box.size() < 5 ? 0 : 1;
  }
  return mapped;
}

/// Of `count` convolutions in groups, how many have one kernel of products that reads windows.
int check_groups(uint64_t seed, int count, const std::vector<runtime::SessionOptions> &ways) {
  Draw draw(seed);
  int products = 0;
  for (int i = 0; i < count; ++i) {
    const Problem p = draw.group_problem();
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    check_compiled(p, graph, compilation, ways);
    for (const program::Kernel &kernel : compilation.program.kernels)
      products +=
          kernel.plan.find("product, ") == 0 &&
                  (kernel.name.find("windows") != std::string::npos || count_of(p.kernel) == 1)
              ? 1
              : 0;
  }
  return products;
}

/// Of a few outputs a group, which are no products.
void check_few_outputs(uint64_t seed, int count, const std::vector<runtime::SessionOptions> &ways) {
  Draw draw(seed);
  for (int i = 0; i < count; ++i) {
    Problem p = draw.group_problem();
    p.outputs = p.groups * draw.between(1, 4);
    check_problem(p, ways);
  }
}

/// Of `count` convolutions, how many take lines together.
int check_lines(uint64_t seed, int count, const std::vector<runtime::SessionOptions> &ways) {
  Draw draw(seed);
  int packed = 0;
  for (int i = 0; i < count; ++i) {
    const Problem p = draw.line_problem();
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    check_compiled(p, graph, compilation, ways);
    const std::vector<graph::Node> &nodes = compilation.graph.nodes;
    packed += std::any_of(nodes.begin(), nodes.end(),
                          [](const graph::Node &n) { return n.target == "aten.unfold.default"; });
  }
  return packed;
}

void check_all(uint64_t seed, int count, const std::vector<runtime::SessionOptions> &ways) {
  Draw draw(seed);
  for (int i = 0; i < count; ++i)
    check_problem(draw.problem(), ways);
  for (int i = 0; i < count; ++i)
    check_problem(draw.product_problem(), ways);
}

} // namespace

TEST_CASE("convolutions at random are what they are defined to be") {
  check_all(1, 24, testing::host_ways());
}

TEST_CASE("convolutions at random are what they are defined to be on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(2, 60, ways);
}

TEST_CASE("windows come by bulk copies where channels are whole lines") {
  CHECK(check_taps(3, 6, testing::host_ways()) >= 4);
}

TEST_CASE("windows come by bulk copies where channels are whole lines on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    CHECK(check_taps(4, 40, ways) >= 25);
}

TEST_CASE("what windows slide over is brought once") {
  const auto [found, in_runs] = check_halos(13, 12, testing::host_ways());
  CHECK(found >= 8);
  CHECK(in_runs >= 1);
}

TEST_CASE("what windows slide over is brought once, on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty()) {
    const auto [found, in_runs] = check_halos(14, 80, ways);
    CHECK(found >= 50);
    CHECK(in_runs >= 5);
  }
}

TEST_CASE("few channels are taken together along a line") {
  CHECK(check_lines(5, 14, testing::host_ways()) >= 5);
}

TEST_CASE("few channels are taken together along a line on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    CHECK(check_lines(6, 60, ways) >= 25);
}

TEST_CASE("convolutions in groups at random") {
  CHECK(check_groups(8, 14, testing::host_ways()) >= 5);
}

TEST_CASE("convolutions in groups at random on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    CHECK(check_groups(9, 60, ways) >= 20);
}

TEST_CASE("windows of many taps are walked by threads that share places") {
  Problem p;
  p.dtype = "float16";
  p.rank = 3;
  p.batch = 1;
  p.channels = p.outputs = p.groups = 48;
  p.sizes = {14, 13, 15};
  p.kernel = {7, 7, 7};
  p.stride = p.dilation = {1, 1, 1};
  p.padding = {3, 3, 3};
  p.more = {0, 0, 0};
  const testing::MadeGraph graph = graph_of(p);
  const driver::Compilation compilation = testing::compile_made(graph, false);
  const auto &kernels = compilation.program.kernels;
  CHECK(std::any_of(kernels.begin(), kernels.end(), [](const program::Kernel &kernel) {
    return kernel.plan.find("places of a window") != std::string::npos;
  }));
  check_compiled(p, graph, compilation, testing::host_ways());
}

TEST_CASE("gradients of the weights of few channels innermost are added up in parts of two loops") {
  testing::MadeGraph graph;
  graph.name = "weights' gradient";
  graph.inputs = {{"g", "float32", {12, 52, 53, 16}},
                  {"x", "float32", {12, 52, 53, 16}},
                  {"w", "float32", {16, 1, 5, 5}}};
  graph.calls = {{"gt", "aten.permute.default", {"$g", {0, 3, 1, 2}}},
                 {"xt", "aten.permute.default", {"$x", {0, 3, 1, 2}}},
                 {"b",
                  "aten.convolution_backward.default",
                  {"$gt",
                   "$xt",
                   "$w",
                   nullptr,
                   {1, 1},
                   {2, 2},
                   {1, 1},
                   false,
                   {0, 0},
                   16,
                   {false, true, false}}},
                 {"y", "operator.getitem", {"$b", 1}}};
  graph.outputs = {"y"};
  const driver::Compilation compilation = testing::compile_made(graph, false);
  REQUIRE(!compilation.program.kernels.empty());
  const auto blocks = compilation.program.kernels[0].cuda.grid[0].as_integer();
  CHECK(blocks.value_or(0) > 132);
  testing::check_made(graph, compilation, 0, testing::host_ways());
}

TEST_CASE("sums in groups of few outputs at random") {
  check_few_outputs(10, 6, testing::host_ways());
}

TEST_CASE("sums in groups of few outputs at random on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_few_outputs(11, 50, ways);
}

TEST_CASE("results that are asked for with channels outermost are finished along the rows") {
  Problem p;
  p.dtype = "float16";
  p.batch = 2;
  p.channels = 64;
  p.outputs = 72;
  p.sizes = {33, 31};
  p.kernel = {3, 3};
  p.stride = p.padding = p.dilation = {1, 1};
  p.more = {0, 0};
  p.bias = true;
  const testing::MadeGraph graph = graph_of(p);
  const driver::Compilation compilation = testing::compile_made(graph, false);
  const auto along = [](const program::Kernel &kernel) {
    return kernel.plan.find("results finished along the rows") != std::string::npos;
  };
  const auto &kernels = compilation.program.kernels;
  CHECK(std::count_if(kernels.begin(), kernels.end(), along) == 1);
  check_compiled(p, graph, compilation, testing::host_ways());
}

TEST_CASE("phases of a transposed convolution are stored where they belong, or are one product") {
  const auto products = [](int64_t kernel, int64_t groups) {
    Problem p;
    p.dtype = "bfloat16";
    p.transposed = true;
    p.batch = 2;
    p.groups = groups;
    p.channels = p.outputs = 32 * groups;
    p.sizes = {17, 16};
    p.kernel = {kernel, kernel};
    p.stride = {2, 2};
    p.padding = {kernel == 3 ? 1 : 0, kernel == 3 ? 1 : 0};
    p.dilation = {1, 1};
    p.more = p.padding;
    p.bias = true;
    const testing::MadeGraph graph = graph_of(p);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    int64_t count = 0;
    for (const program::Kernel &made : compilation.program.kernels)
      count += made.plan.find("product, ") == 0 ? 1 : 0;
    for (const program::Step &step : compilation.program.steps) // of one tap each, read as they lie
      count += std::holds_alternative<program::Matmul>(step.kind) ? 1 : 0;
    check_compiled(p, graph, compilation, testing::host_ways());
    return count;
  };
  CHECK(products(3, 1) == 4); // of one, two, two and four taps
  CHECK(products(4, 1) == 1);
  CHECK(products(2, 1) == 1);
  products(3, 2); // batches of the library's
}

TEST_CASE("few outputs of a transposed convolution come from products, not from sums of all taps") {
  for (const std::string dtype : {"bfloat16", "float32"})
    for (const auto &[kernel, stride, outputs] : {std::tuple<int64_t, int64_t, int64_t>{3, 2, 3},
                                                  {4, 2, 1},
                                                  {5, 3, 2},
                                                  {3, 1, 1},
                                                  {5, 2, 4}}) { // the last by phases
      Problem p;
      p.dtype = dtype;
      p.transposed = true;
      p.batch = 2;
      p.channels = 40;
      p.outputs = outputs;
      p.sizes = {15, 16};
      p.kernel = {kernel, kernel};
      p.stride = {stride, stride};
      p.padding = {1, 1};
      p.dilation = {1, 1};
      p.more = {0, 0};
      p.bias = true;
      const testing::MadeGraph graph = graph_of(p);
      const driver::Compilation compilation = testing::compile_made(graph, false);
      INFO(dtype << " kernel " << kernel << " stride " << stride);
      const std::vector<graph::Node> &nodes = compilation.graph.nodes;
      CHECK(std::any_of(nodes.begin(), nodes.end(), [](const graph::Node &node) {
        return node.target.find("mm.d") != std::string::npos;
      }));
      check_compiled(p, graph, compilation, testing::host_ways());
    }
}

TEST_CASE("columns are never larger than their bound, and none where a product reads windows") {
  const auto workspace = [](int64_t batch, int64_t outputs, const char *dtype = "float16") {
    Problem p;
    p.dtype = dtype;
    p.batch = batch;
    p.channels = 32;
    p.outputs = outputs;
    p.sizes = {112, 112};
    p.kernel = {3, 3};
    p.stride = p.padding = p.dilation = {1, 1};
    p.more = {0, 0};
    return driver::memory_use(testing::compile_made(graph_of(p), false).program)->workspace;
  };
  const int64_t input = int64_t{64} * 32 * 112 * 112 * 2, bound = int64_t{256} << 20;
  // The input and the result with their channels inside; columns would be nine times the input.
  CHECK(workspace(64, 24) <= input + input * 24 / 32 + 4096 * 24);
  CHECK(workspace(128, 24) <= 2 * (input + input * 24 / 32) + 4096 * 24);
  // Results of 16 bits are filled up to whole runs.
  CHECK(workspace(64, 21) <= input + input * 24 / 32 + 4096 * 24);
  CHECK(workspace(64, 3) <= input + input * 8 / 32 + 4096 * 24);
  // Of float32 they are the matrix library's, so columns, in parts.
  CHECK(workspace(64, 21, "float32") > input * 2);
  CHECK(workspace(64, 21, "float32") < bound + 2 * input);
}

TEST_CASE("products are rounded to TF32 where it was asked for, in the program too") {
  // A convolution with columns (7 outputs) and a product that none is made of.
  testing::MadeGraph graph;
  graph.name = "tf32";
  graph.inputs = {{"x", "float32", {2, 4, 9, 8}},
                  {"w", "float32", {7, 4, 3, 3}},
                  {"a", "float32", {33, 20}},
                  {"b", "float32", {20, 17}}};
  graph.calls = {{"c", "aten.conv2d.default", {"$x", "$w"}},
                 {"m", "aten.mm.default", {"$a", "$b"}}};
  graph.outputs = {"c", "m"};
  const std::vector<std::pair<std::string, std::vector<bool>>> expected = {
      {"off", {false, false}}, {"conv", {true, false}}, {"on", {true, true}}};
  for (const auto &[option, rounded] : expected) {
    INFO(option);
    graph.policy_options = {"tf32=" + option};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    const program::Program again =
        program::from_json(program::to_json(compilation.program), "program.json");
    std::vector<bool> found;
    for (const program::Step &step : again.steps)
      if (const auto *product = std::get_if<program::Matmul>(&step.kind))
        found.push_back(product->tf32);
    std::sort(found.rbegin(), found.rend());
    CHECK(found == rounded);
  }
}

TEST_CASE("copies of windows over any size end with the last position") {
  for (const int64_t stride : {2, 3, 5}) // those of 1 come in boxes
    for (const int64_t taps : {3, 5}) {
      testing::MadeGraph graph;
      graph.name = "steps of " + std::to_string(stride) + ", taps " + std::to_string(taps);
      INFO(graph.name);
      graph.inputs = {{"x", "float16", {224, 1, 224, 64}}, {"w", "float16", {128, 64, taps, taps}}};
      graph.calls = {{"p", "aten.permute.default", {"$x", {1, 3, 0, 2}}},
                     {"c",
                      "aten.convolution.default",
                      {"$p",
                       "$w",
                       nullptr,
                       {stride, stride},
                       {taps / 2, taps / 2},
                       {1, 1},
                       false,
                       {0, 0},
                       1}}};
      graph.outputs = {"c"};
      int found = 0;
      for (const program::Kernel &kernel : testing::compile_made(graph, true).program.kernels)
        for (const program::TensorMap &map : kernel.cuda.maps) {
          if (map.lower.empty())
            continue;
          ++found;
          for (int64_t size = 9; size < 40; ++size) {
            const int64_t end = size - 1 + map.upper[1]; // heights are the symbol
            CHECK((end - map.lower[1]) / map.step[1] + 1 == (size - 1) / stride + 1);
          }
        }
      CHECK(found == 1);
    }
}
