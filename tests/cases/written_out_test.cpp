// Short sums and short rows that a thread writes out: what windows hold that cover an element
// (gradients of pools), rows of a few elements, taps of a weight's gradient; of sizes for which the
// GPU has threads enough.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  testing::MadeGraph graph;
  std::string plan; // that a kernel's text names
};

/// The gradient of an average over windows of `kernel`, `stride` apart; x [N, C, H, W].
json average(const char *x, const json &kernel, const json &stride, const json &padding) {
  const std::string rank = std::to_string(kernel.size());
  return {"y",
          "aten.avg_pool" + rank + "d_backward.default",
          {"$g", x, kernel, stride, padding, false, true, nullptr}};
}

/// A maximum's positions, and its gradient with itself as what comes from above.
json maximum(const json &kernel, const json &stride, const json &padding, const json &dilation) {
  const std::string pool = "aten.max_pool" + std::to_string(kernel.size()) + "d_with_indices";
  return {{"m", pool + ".default", {"$x", kernel, stride, padding, dilation, false}},
          {"v", "operator.getitem", {"$m", 0}},
          {"i", "operator.getitem", {"$m", 1}},
          {"y",
           pool + "_backward.default",
           {"$v", "$x", kernel, stride, padding, dilation, false, "$i"}}};
}

json layer_norm(int64_t size) {
  return {{"n", "aten.native_layer_norm.default", {"$x", {size}, "$w", "$b", 1e-5}},
          {"y", "operator.getitem", {"$n", 0}}};
}

/// Of a weight that no channels share.
json weight_gradient(const json &stride, const json &padding, int64_t channels) {
  const json ones = json(std::vector<int64_t>(stride.size(), 1)),
             zeros = json(std::vector<int64_t>(stride.size(), 0));
  return {{"d",
           "aten.convolution_backward.default",
           {"$g",
            "$x",
            "$w",
            nullptr,
            stride,
            padding,
            ones,
            false,
            zeros,
            channels,
            {false, true, false}}},
          {"y", "operator.getitem", {"$d", 1}}};
}

std::vector<Case> cases() {
  const char *covered = "windows written out, elements", *row = "a short loop a thread",
             *taps = "row reduction";
  return {
      {{"averages, odd sizes",
        {{"g", "float32", {9, 40, 32, 34}}, {"x", "float32", {9, 40, 64, 67}}},
        json::array({average("$x", {3, 3}, {2, 2}, {1, 1})}),
        {"y"}},
       covered},
      {{"averages, whole accesses",
        {{"g", "float16", {5, 40, 31, 32}}, {"x", "float16", {5, 40, 64, 64}}},
        json::array({average("$x", {4, 4}, {2, 2}, {0, 1})}),
        {"y"}},
       covered},
      {{"averages apart from each other",
        {{"g", "bfloat16", {5, 40, 16, 16}}, {"x", "bfloat16", {5, 40, 64, 62}}},
        json::array({average("$x", {2, 3}, {4, 4}, {0, 1})}),
        {"y"}},
       covered},
      {{"averages, three dimensions",
        {{"g", "float32", {4, 7, 12, 14, 15}}, {"x", "float32", {4, 7, 26, 29, 31}}},
        json::array({average("$x", {4, 3, 3}, {2, 2, 2}, {0, 0, 0})}),
        {"y"}},
       covered},
      {{"averages, channels last",
        {{"h", "float16", {6, 40, 41, 48}}, {"z", "float16", {6, 80, 81, 48}}},
        {{"g", "aten.permute.default", {"$h", {0, 3, 1, 2}}},
         {"x", "aten.permute.default", {"$z", {0, 3, 1, 2}}},
         average("$x", {2, 3}, {2, 2}, {0, 1})},
        {"y"}},
       "windows written out"},
      {{"maxima",
        {{"x", "float32", {4, 40, 53, 54}}},
        maximum({3, 3}, {2, 2}, {1, 1}, {1, 1}),
        {"y", "i"}},
       covered},
      {{"maxima, steps that share a divisor",
        {{"x", "float16", {4, 40, 53, 54}}},
        maximum({3, 4}, {2, 4}, {1, 2}, {2, 2}),
        {"y"}},
       ""},
      {{"maxima, steps without a common divisor",
        {{"x", "float32", {4, 40, 53, 54}}},
        maximum({3, 3}, {2, 3}, {1, 1}, {3, 2}),
        {"y"}},
       ""},
      {{"maxima and where they were",
        {{"x", "float32", {2, 64, 75, 75}}},
        {{"y", "aten.max_pool2d_with_indices.default", {"$x", {3, 3}, {2, 2}, {1, 1}}},
         {"v", "operator.getitem", {"$y", 0}},
         {"i", "operator.getitem", {"$y", 1}}},
        {"v", "i"}},
       ""},
      {{"rows of three",
        {{"x", "float16", {70000, 3}}, {"w", "float16", {3}}, {"b", "float16", {3}}},
        layer_norm(3),
        {"y"}},
       row},
      {{"rows of five, a number that no run divides",
        {{"x", "float32", {70002, 5}}, {"w", "float32", {5}}, {"b", "float32", {5}}},
        layer_norm(5),
        {"y"}},
       ""},
      {{"rows of seven",
        {{"x", "bfloat16", {30, 2400, 7}}, {"w", "bfloat16", {7}}, {"b", "bfloat16", {7}}},
        layer_norm(7),
        {"y"}},
       "row reduction, 2 threads a row"}, // its sums are read back: one kernel in place of two
      {{"four taps of each channel, channels innermost",
        {{"h", "bfloat16", {3, 301, 2064}},
         {"w", "bfloat16", {1032, 1, 4}},
         {"b", "bfloat16", {1032}}},
        {{"p", "aten.slice.Tensor", {"$h", 2, 1032, 2064}},
         {"x", "aten.transpose.int", {"$p", 1, 2}},
         {"c", "aten.convolution.default", {"$x", "$w", "$b", {1}, {3}, {1}, false, {0}, 1032}},
         {"s", "aten.slice.Tensor", {"$c", 2, 0, 301}},
         {"y", "aten.silu.default", {"$s"}}},
        {"y"}},
       "numbers of an element together, 1 run of 8"},
      {{"norms and products of heads that several queries share",
        {{"x", "bfloat16", {4, 500, 4, 64}}, {"a", "bfloat16", {4, 500, 16, 64}}},
        {{"u", "aten.unsqueeze.default", {"$x", 3}},
         {"e", "aten.expand.default", {"$u", {4, 500, 4, 4, 64}}},
         {"c", "aten.clone.default", {"$e"}},
         {"r", "aten.reshape.default", {"$c", {4, 500, 16, 64}}},
         {"f", "aten._to_copy.default", {"$r"}, {{"dtype", {{"dtype", "float32"}}}}},
         {"n", "aten.linalg_vector_norm.default", {"$f", 2.0, {-1}, true}},
         {"d", "aten.div.Tensor", {"$f", "$n"}},
         {"m", "aten.mul.Tensor", {"$a", "$d"}},
         {"y", "aten.sum.dim_IntList", {"$m", {-1}}}},
        {"y", "n"}},
       taps}, // 64 elements apart, 4 of 5 sums the same: not one thread's
      {{"softmax of rows of four",
        {{"x", "float32", {80000, 4}}},
        json::array({{"y", "aten._softmax.default", {"$x", -1, false}}}),
        {"y"}},
       ""},
      {{"a weight's gradient",
        {{"g", "float16", {3, 20, 41, 41}},
         {"x", "float16", {3, 20, 81, 81}},
         {"w", "float16", {20, 1, 3, 3}}},
        weight_gradient({2, 2}, {1, 1}, 20),
        {"y"}},
       taps},
      {{"a weight's gradient, one dimension",
        {{"g", "float32", {27, 24, 1453}},
         {"x", "float32", {27, 24, 2905}},
         {"w", "float32", {24, 1, 5}}},
        weight_gradient({2}, {2}, 24),
        {"y"}},
       taps},
      {{"a weight's gradient, three dimensions",
        {{"g", "float32", {4, 10, 10, 11, 20}},
         {"x", "float32", {4, 10, 10, 11, 20}},
         {"w", "float32", {10, 1, 3, 3, 3}}},
        weight_gradient({1, 1, 1}, {1, 1, 1}, 10),
        {"y"}},
       taps},
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
  }
}

} // namespace

TEST_CASE("what threads write out on the host") { check_all(testing::plan_ways()); }

TEST_CASE("what threads write out on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
