// Columns that the registers of a block hold: what reads their statistics beside their elements is
// in one kernel, and nothing is read twice.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

testing::MadeGraph of_channels(const std::string &name, const std::string &dtype,
                               const std::vector<int64_t> &sizes, json calls) {
  return {name, {{"x", dtype, sizes}}, std::move(calls), {"y"}, {}};
}

/// A softmax over `dimension`.
testing::MadeGraph softmax(const std::string &name, const std::string &dtype,
                           const std::vector<int64_t> &sizes, int dimension = 1) {
  return of_channels(name, dtype, sizes,
                     {{"y", "aten._softmax.default", {"$x", dimension, false}}});
}

std::vector<testing::MadeGraph> graphs() {
  testing::MadeGraph norm = {
      "a layer norm over channels that lie apart",
      {{"x", "float32", {5, 96, 33, 31}}, {"w", "float32", {96}}, {"b", "float32", {96}}},
      {{"p", "aten.permute.default", {"$x", {0, 2, 3, 1}}},
       {"n", "aten.native_layer_norm.default", {"$p", {96}, "$w", "$b", 1e-5}},
       {"m", "operator.getitem", {"$n", 0}},
       {"q", "aten.permute.default", {"$m", {0, 3, 1, 2}}},
       {"y",
        "aten.clone.default",
        {"$q"},
        {{"memory_format", {{"memory_format", "contiguous_format"}}}}}},
      {"y"},
      {}};
  testing::MadeGraph gradient = {
      "two operands",
      {{"g", "float32", {9, 130, 515}}, {"o", "float32", {9, 130, 515}, -9, 0}},
      {{"y", "aten._log_softmax_backward_data.default", {"$g", "$o", 1, {{"dtype", "float32"}}}}},
      {"y"},
      {}};
  testing::MadeGraph weighted = {"rows' results besides",
                                 {{"x", "float32", {9, 150, 515}}, {"z", "float32", {9, 1, 515}}},
                                 {{"s", "aten._softmax.default", {"$x", 1, false}},
                                  {"y", "aten.mul.Tensor", {"$s", "$z"}},
                                  {"m", "aten.mul.Tensor", {"$x", "$z"}},
                                  {"t", "aten.sum.dim_IntList", {"$m", {1}, false}}},
                                 {"y", "t"},
                                 {}};
  return {
      softmax("odd lines of floats", "float32", {9, 70, 515}),
      softmax("columns of 16 bits that no number of threads divides", "bfloat16", {10, 257, 500}),
      softmax("outermost", "float16", {300, 5001}, 0),
      softmax("doubles", "float64", {9, 101, 600}),
      std::move(norm),
      std::move(gradient),
      std::move(weighted),
      of_channels(
          "bytes", "int8", {300, 5000},
          {{"m", "aten.amax.default", {"$x", {0}}}, {"y", "aten.sub.Tensor", {"$x", "$m"}}}),
  };
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const testing::MadeGraph &graph : graphs()) {
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    REQUIRE(compilation.program.kernels.size() == 1);
    INFO(compilation.program.kernels[0].plan);
    CHECK(compilation.program.kernels[0].plan.find("columns kept in registers") !=
          std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("columns that registers hold are read once, on the host") {
  check_all(testing::plan_ways());
}

TEST_CASE("columns that registers hold are read once, on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
