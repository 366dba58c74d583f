// Rows that a block holds, pieces of memory apart: what reads their results beside their elements
// is in their kernel.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;

namespace {

/// A batch norm in training, and its ReLU.
testing::MadeGraph batch_norm(const std::string &name, const std::vector<int64_t> &sizes) {
  return {name,
          {{"x", "float16", sizes}, {"w", "float16", {sizes[1]}}, {"b", "float16", {sizes[1]}}},
          nlohmann::json::array(
              {{"n", "aten._native_batch_norm_legit.no_stats", {"$x", "$w", "$b", true, 0.1, 1e-5}},
               {"m", "operator.getitem", {"$n", 0}},
               {"r", "aten.relu.default", {"$m"}}}),
          {"r"},
          {}};
}

testing::MadeGraph group_norm(const std::vector<int64_t> &sizes, int64_t groups) {
  const int64_t inner = sizes[2] * sizes[3];
  return {"group norm",
          {{"x", "float32", sizes}, {"w", "float32", {sizes[1]}}},
          nlohmann::json::array({{"n",
                                  "aten.native_group_norm.default",
                                  {"$x", "$w", "$w", sizes[0], sizes[1], inner, groups, 1e-5}},
                                 {"m", "operator.getitem", {"$n", 0}}}),
          {"m"},
          {}};
}

struct Expected {
  testing::MadeGraph graph;
  bool is_one_kernel;
};
std::vector<Expected> graphs() {
  return {
      {batch_norm("pieces of 64", {9, 160, 8, 8}), true},
      {batch_norm("pieces of 8 bytes' multiples", {33, 150, 6, 6}), true},
      {batch_norm("pieces of single elements", {33, 150, 7, 7}), false},
      {batch_norm("rows that no block holds", {65, 4, 32, 32}), false},
      {group_norm({4, 160, 16, 16}, 32), true},
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Expected &expected : graphs()) {
    INFO(expected.graph.name);
    const driver::Compilation compilation = testing::compile_made(expected.graph, false);
    CHECK((compilation.program.steps.size() == 1) == expected.is_one_kernel);
    testing::check_made(expected.graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("what reads rows back that a block holds is in their kernel on the host") {
  check_all(testing::plan_ways());
}

TEST_CASE("what reads rows back that a block holds is in their kernel on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}

namespace {

/// Gradients of softmaxes over rows of which one operand fills half of a multiprocessor's
/// registers: the other one is loaded when it is needed, by two blocks of a multiprocessor.
void check_late(const std::vector<runtime::SessionOptions> &ways) {
  for (const char *call : {"aten._log_softmax_backward_data.default", // the second one late
                           "aten._softmax_backward_data.default"}) {  // both are summed up
    const bool late = std::string(call).find("log") != std::string::npos;
    const testing::MadeGraph graph = {
        call,
        {{"g", "float16", {5, 32000}}, {"o", "float16", {5, 32000}, -9, 0}},
        nlohmann::json::array({{"y", call, {"$g", "$o", 1, {{"dtype", "float16"}}}}}),
        {"y"},
        {}};
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(call);
    REQUIRE(compilation.program.kernels.size() == 1);
    const std::string &text = compilation.program.kernels[0].cuda.text;
    CHECK((text.find("__launch_bounds__(512, 2)") != std::string::npos) == late);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("what a row's first walk does not need is loaded late on the host") {
  check_late(testing::plan_ways());
}

TEST_CASE("what a row's first walk does not need is loaded late on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_late(ways);
}
