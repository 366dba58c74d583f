// Scans of tuples by functions of their own, in every way that kernels have: agree with the
// reference.
#include "made_graph.h"
#include "testing/catch.h"

using namespace tsc;
using nlohmann::json;

namespace {

/// (name, target, arguments) over operands o0, o1, ..: what is combined to which results.
struct Function {
  std::vector<std::string> dtypes; // of the members, which are inputs x0, x1, ..
  std::vector<std::pair<double, double>> ranges;
  json calls;
  std::vector<std::string> results;
};

Function recurrence(const std::string &dtype, double low = 0.5, double high = 1) {
  return {{dtype, dtype},
          {{low, high}, {-3, 3}},
          {{"p", "aten.mul.Tensor", {"$o0", "$o2"}},
           {"q", "aten.mul.Tensor", {"$o1", "$o2"}},
           {"r", "aten.add.Tensor", {"$q", "$o3"}}},
          {"$p", "$r"}};
}
Function logarithms() { // of a recurrence of what is positive: longer than an instruction
  return {{"float32", "float32"},
          {{-1, 0}, {-3, 3}},
          {{"p", "aten.add.Tensor", {"$o0", "$o2"}},
           {"q", "aten.add.Tensor", {"$o1", "$o2"}},
           {"m", "aten.maximum.default", {"$q", "$o3"}},
           {"n", "aten.minimum.default", {"$q", "$o3"}},
           {"d", "aten.sub.Tensor", {"$n", "$m"}},
           {"e", "aten.exp.default", {"$d"}},
           {"l", "aten.log1p.default", {"$e"}},
           {"r", "aten.add.Tensor", {"$m", "$l"}}},
          {"$p", "$r"}};
}
Function largest_with_place() { // of equal ones the last: the order counts
  return {{"float16", "int64"},
          {{-4, 4}, {0, 1e6}},
          {{"c", "aten.ge.Tensor", {"$o2", "$o0"}},
           {"v", "aten.where.self", {"$c", "$o2", "$o0"}},
           {"i", "aten.where.self", {"$c", "$o3", "$o1"}}},
          {"$v", "$i"}};
}
Function last() { // neither commutative nor with anything that changes nothing
  return {{"int32"}, {{-100, 100}}, {{"l", "aten.maximum.default", {"$o1", "$o1"}}}, {"$l"}};
}
Function parities() {
  return {{"bool"}, {{0, 2}}, {{"l", "aten.logical_xor.default", {"$o0", "$o1"}}}, {"$l"}};
}
Function affine(const std::string &dtype) { return recurrence(dtype, -3, 4); }

struct Case {
  std::string name;
  Function function;
  std::vector<int64_t> sizes;
  int64_t dim = 0;
  size_t steps = 1;
  std::string plan;                 // what the plan says of itself, among other things
  std::vector<int64_t> first_sizes; // of the dynamic graph
};

std::vector<Case> cases() {
  return {
      {"a row", recurrence("float32"), {1000}, 0, 1, "kept in registers", {2, 3, 1000}},
      {"short rows", recurrence("float32"), {37, 7}, 1},
      {"rows of nobody's width", affine("int64"), {6, 1001}, 1},
      {"rows of halves", recurrence("bfloat16"), {5, 4096}, 1},
      {"middle", recurrence("float64"), {3, 300, 5}, 1},
      {"a long row", recurrence("float32"), {70003}, 0, 1, "look back", {2, 3000, 70003}},
      {"long rows", recurrence("float16"), {3, 66000}, 1, 1, "look back"},
      {"several groups of parts", affine("int8"), {600011}, 0, 1, "look back"},
      {"logarithms of a long row", logarithms(), {66001}, 0, 1, "look back"},
      {"places in a long row", largest_with_place(), {140001}, 0, 1, "look back"},
      {"the last of a long row", last(), {100003}, 0, 1, "look back"},
      {"parities of a long row", parities(), {65537}, 0, 1, "look back"},
      {"columns", recurrence("float32"), {300, 2048}, 0, 1, "columns look back", {2, 128, 300}},
      {"columns of halves", recurrence("bfloat16"), {130, 2112}, 0, 1, "columns look back"},
      {"odd columns", recurrence("float32"), {257, 2051}, 0, 1, "columns look back"},
      {"columns in the middle", affine("int32"), {3, 700, 1024}, 1, 1, "columns look back"},
      {"logarithms of columns", logarithms(), {200, 2048}, 0, 1, "columns look back"},
      {"the last of columns", last(), {1025, 2080}, 0, 1, "columns look back"},
      {"columns of doubles", recurrence("float64"), {100, 2080}, 0, 1, "columns look back"},
      {"few columns", recurrence("float32"), {4001, 300}, 0, 3},
      {"places in few columns", largest_with_place(), {70001, 16}, 0, 3},
      {"many columns", recurrence("float32"), {5, 140000}, 0},
  };
}

testing::MadeGraph made(const Case &one) {
  testing::MadeGraph graph{one.name, {}, json::array(), {}, {}, true};
  const size_t members = one.function.dtypes.size();
  json xs = json::array(), combined = json::array();
  for (size_t k = 0; k < members; ++k) {
    const std::string x = "x" + std::to_string(k);
    const auto [low, high] = one.function.ranges[k];
    graph.inputs.push_back({x, one.function.dtypes[k], one.sizes, low, high});
    xs.push_back("$" + x);
  }
  for (size_t k = 0; k < 2 * members; ++k)
    graph.calls.push_back({"o" + std::to_string(k),
                           "tsc.combine_operand.default",
                           {k, one.sizes.size() - 1},
                           {{"dtype", {{"dtype", one.function.dtypes[k % members]}}}}});
  for (const json &call : one.function.calls)
    graph.calls.push_back(call);
  for (const std::string &result : one.function.results)
    combined.push_back(result);
  graph.calls.push_back({"scan", "tsc.associative_scan.default", {xs, combined, one.dim}});
  for (size_t k = 0; k < members; ++k) {
    graph.outputs.push_back("y" + std::to_string(k));
    graph.calls.push_back({graph.outputs.back(), "operator.getitem", {"$scan", k}});
  }
  return graph;
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &one : cases()) {
    const testing::MadeGraph graph = made(one);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    INFO(one.name);
    CHECK(compilation.program.steps.size() == one.steps);
    const std::string &plan = compilation.program.kernels.at(0).plan;
    INFO(plan);
    CHECK(plan.find(one.plan) != std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
    if (one.first_sizes.empty())
      continue;
    const driver::Compilation dynamic = testing::compile_made(graph, true);
    for (const int64_t size : one.first_sizes)
      testing::check_made(graph, dynamic, size, ways);
  }
}

} // namespace

TEST_CASE("scans of tuples on the host") { check_all(testing::plan_ways()); }

TEST_CASE("scans of tuples on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
