// Reductions that keep a short innermost loop: runs go across it and the loop around it, and what
// they add up to is merged by row.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name;
  std::vector<testing::MadeInput> inputs;
  json calls;
  std::vector<std::string> outputs;
  std::string plan = "reduction of pieces"; // of one kernel of the GPU's, a part of its text
};

json one(const std::string &target, const json &arguments) {
  return json::array({{"y", target, arguments}});
}

/// Of numbers around `mean`.
json moments(const json &dims, double mean = 0) {
  return {{"c", "aten.add.Tensor", {"$x", mean}},
          {"v", "aten.var_mean.correction", {"$c", dims}, {{"correction", 1}}},
          {"a", "operator.getitem", {"$v", 0}},
          {"m", "operator.getitem", {"$v", 1}}};
}

std::vector<Case> cases() {
  return {
      {"deviations of runs of 8 numbers over 6 rows",
       {{"x", "float16", {79, 7, 5, 60, 6}}},
       {{"v", "aten.var.correction", {"$x", {1, 3}}, {{"correction", 1}}},
        {"y", "aten.sqrt.default", {"$v"}}},
       {"y"}},
      {"moments far from 0", {{"x", "float32", {301, 1000, 3}}}, moments({1}, 900), {"a", "m"}},
      {"moments of doubles", {{"x", "float64", {301, 500, 5}}}, moments({1}, 2), {"a", "m"}},
      {"moments of bf16, an odd piece",
       {{"x", "bfloat16", {211, 3, 333, 7}}},
       moments({1, 2}),
       {"a", "m"}},
      {"sums of pairs",
       {{"x", "float16", {301, 2001, 2}}},
       one("aten.sum.dim_IntList", {"$x", {1}}),
       {"y"},
       ""},
      {"sums of 12",
       {{"x", "bfloat16", {199, 502, 12}}},
       one("aten.sum.dim_IntList", {"$x", {1}}),
       {"y"}},
      {"sums of 20 in two loops",
       {{"x", "float16", {40, 101, 102, 20}}},
       one("aten.sum.dim_IntList", {"$x", {0, 2}}),
       {"y"}},
      {"sums of 64-bit integers of 7",
       {{"x", "int64", {150, 601, 7}, -900, 900}},
       one("aten.sum.dim_IntList", {"$x", {1}}),
       {"y"}},
      {"largest of 32-bit integers of 5",
       {{"x", "int32", {301, 804, 5}, -90000, 90000}},
       one("aten.amax.default", {"$x", {1}}),
       {"y"}},
      {"largest where some are NaN",
       {{"x", "float32", {303, 1002, 6}}},
       {{"a", "aten.add.Tensor", {"$x", 3.2}},
        {"s", "aten.sqrt.default", {"$a"}},
        {"y", "aten.amax.default", {"$s", {1}}}},
       {"y"}},
      {"smallest of bf16 of 3",
       {{"x", "bfloat16", {303, 2008, 3}}},
       one("aten.amin.default", {"$x", {1}}),
       {"y"}},
      {"whether any is",
       {{"x", "float32", {303, 1001, 7}}},
       {{"c", "aten.gt.Scalar", {"$x", 3.2}}, {"y", "aten.any.dim", {"$c", 1}}},
       {"y"}},
      {"bytes, 16 a run",
       {{"x", "uint8", {301, 4000, 6}, 0, 200}},
       one("aten.sum.dim_IntList", {"$x", {1}}),
       {"y"},
       ""},
      {"places of the largest",
       {{"x", "float32", {303, 1004, 6}}},
       one("aten.argmax.default", {"$x", 1}),
       {"y"}},
      {"places of the smallest in two loops",
       {{"x", "float16", {303, 9, 204, 5}}},
       {{"p", "aten.permute.default", {"$x", {0, 3, 1, 2}}},
        {"f", "aten.view.default", {"$p", {303, 5, 1836}}},
        {"y", "aten.argmin.default", {"$f", 2}}},
       {"y"},
       ""},
      {"numbers of the row and of the element",
       {{"x", "float32", {303, 1004, 6}}, {"w", "float32", {6}}, {"z", "float32", {1004, 1}}},
       {{"a", "aten.mul.Tensor", {"$x", "$w"}},
        {"b", "aten.sub.Tensor", {"$a", "$z"}},
        {"s", "aten.sum.dim_IntList", {"$b", {1}}},
        {"y", "aten.add.Tensor", {"$s", "$w"}}},
       {"y"}},
      {"several sums of two operands",
       {{"x", "float16", {303, 1004, 6}}, {"z", "float32", {303, 1004, 6}}},
       {{"a", "aten.mul.Tensor", {"$x", "$z"}},
        {"y", "aten.sum.dim_IntList", {"$a", {1}}},
        {"m", "aten.amax.default", {"$z", {1}}}},
       {"y", "m"}},
      {"products of odd integers, which wrap",
       {{"x", "int64", {303, 1001, 3}, -900, 900}},
       {{"t", "aten.mul.Tensor", {"$x", 2}},
        {"o", "aten.add.Tensor", {"$t", 1}},
        {"y", "aten.prod.dim_int", {"$o", 1}}},
       {"y"}},
      {"few rows, in parts",
       {{"x", "float32", {4, 60000, 6}}},
       one("aten.mean.dim", {"$x", {1}}),
       {"y"}},
      {"the last part is shorter", {{"x", "float16", {3, 200024, 6}}}, moments({1}, 3), {"a", "m"}},
      {"parts of which the last has fewer lines",
       {{"x", "float32", {313, 3001, 3}}},
       one("aten.sum.dim_IntList", {"$x", {0, 1}}),
       {"y"}},
      {"parts of two loops, as many as no number divides",
       {{"x", "float32", {5, 131, 8, 211, 7}}},
       one("aten.sum.dim_IntList", {"$x", {1, 3}}),
       {"y"},
       ""},
      {"moments of channels of images, in parts",
       {{"x", "float16", {24, 56, 224, 3}}},
       moments({1, 2}),
       {"a", "m"}},
      {"a part of each piece",
       {{"x", "float32", {303, 1004, 6}}},
       {{"p", "aten.slice.Tensor", {"$x", 1, 2, 1003}}, {"y", "aten.sum.dim_IntList", {"$p", {1}}}},
       {"y"}},
      {"a part of the neighbours is no piece",
       {{"x", "float32", {303, 1004, 6}}},
       {{"p", "aten.slice.Tensor", {"$x", 2, 0, 5}}, {"y", "aten.sum.dim_IntList", {"$p", {1}}}},
       {"y"},
       "column reduction"},
      {"whole sectors stay columns",
       {{"x", "float32", {303, 500, 32}}},
       one("aten.sum.dim_IntList", {"$x", {1}}),
       {"y"},
       "column reduction"},
  };
}

testing::MadeGraph graph_of(const Case &each) {
  testing::MadeGraph graph;
  graph.name = each.name;
  graph.inputs = each.inputs;
  graph.calls = each.calls;
  graph.outputs = each.outputs;
  return graph;
}

std::string plans_of(const driver::Compilation &compilation) {
  std::string plans;
  for (const program::Kernel &kernel : compilation.program.kernels)
    plans += kernel.plan + "\n";
  return plans;
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases()) {
    INFO(each.name);
    const driver::Compilation compilation = testing::compile_made(graph_of(each), false);
    const std::string plans = plans_of(compilation);
    INFO(plans);
    CHECK(plans.find(each.plan) != std::string::npos);
    testing::check_made(graph_of(each), compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("rows that lie in pieces are reduced on the host") { check_all(testing::plan_ways()); }
TEST_CASE("rows that lie in pieces are reduced on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
TEST_CASE("rows in pieces are read in whole vectors") {
  const Case deviations{"deviations of 6 neighbours",
                        {{"x", "float16", {383, 21, 5, 300, 6}}},
                        {{"v", "aten.var.correction", {"$x", {1, 3}}, {{"correction", 1}}},
                         {"y", "aten.sqrt.default", {"$v"}}},
                        {"y"}};
  const driver::Compilation compilation = testing::compile_made(graph_of(deviations), false);
  REQUIRE(compilation.program.kernels.size() == 1);
  const program::Kernel &kernel = compilation.program.kernels[0];
  CHECK(kernel.plan == "reduction of pieces, 6 neighbouring rows a block of 126 threads, 1 walk "
                       "over the rows, 16-byte accesses");
  for (const char *part : {"threadIdx.x) % 3 * 8;", "tc_load_vec<8>(",
                           "tc_pieces_reduce<tc_welford, 126, 6>(a0, shared.a0);",
                           "if (static_cast<int>(threadIdx.x) < 6) {"}) {
    INFO(part);
    CHECK(kernel.cuda.text.find(part) != std::string::npos);
  }
}
