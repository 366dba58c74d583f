// One place of each row of a constant, written: a choice by position gives what writing gives.
#include "made_graph.h"
#include "support/diagnostic.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <cstring>
#include <numeric>

using namespace tsc;
using nlohmann::json;

namespace {

struct Case {
  std::string name, dtype;
  std::vector<int64_t> sizes, index; // of the constant, of the index
  json call;                         // target and arguments of y
  int64_t dimension = 1;
  bool chooses = true; // else it is a scatter as before
};

std::vector<Case> cases() {
  const json value = {"aten.scatter.value", {"$c", 1, "$i", -1.5}},
             source = {"aten.scatter.src", {"$c", 1, "$i", "$s"}},
             sum = {"aten.scatter_add.default", {"$c", 1, "$i", "$s"}};
  return {
      {"a number", "float32", {37, 1001}, {37, 1}, value},
      {"a number, 16 bits", "bfloat16", {5, 32000}, {5, 1}, value},
      {"a tensor", "float16", {37, 101}, {37, 1}, source},
      {"a sum", "float32", {37, 101}, {37, 1}, sum},
      {"a sum of ints", "int32", {7, 13}, {7, 1}, sum},
      {"the first dimension",
       "float32",
       {11, 5, 3},
       {1, 5, 3},
       {"aten.scatter_add.default", {"$c", 0, "$i", "$s"}},
       0},
      {"one element", "float32", {3, 1}, {3, 1}, source},
      {"two places of a row", "float32", {7, 13}, {7, 2}, sum, 1, false},
      {"not all rows", "float32", {7, 13}, {5, 1}, value, 1, false},
  };
}

driver::Compilation compile(const Case &one, bool chooses) {
  testing::MadeGraph graph;
  graph.inputs = {{"i", "int64", one.index}, {"s", one.dtype, one.index}};
  const json dtype = {{"dtype", one.dtype}};
  graph.calls = {{"f", "aten.full.default", {one.sizes, 2}},
                 {"c", "prims.convert_element_type.default", {"$f", dtype}},
                 {"y", one.call[0], one.call[1]},
                 {"z", "aten.mul.Tensor", {"$y", "$y"}}};
  graph.outputs = {"y", "z"};
  if (!chooses)
    graph.policy_options = {"scatters_choose=off"};
  return testing::compile_made(graph, false);
}

bool scatters(const driver::Compilation &compilation) {
  for (const ir::Operation &operation : compilation.module.operations)
    if (std::holds_alternative<ir::Scatter>(operation.kind))
      return true;
  return false;
}

std::vector<tensor::HostTensor> inputs_of(const Case &one) {
  tensor::HostTensor index(tensor::DType::i64, one.index);
  auto *places = reinterpret_cast<int64_t *>(index.data());
  const int64_t extent = one.sizes[static_cast<size_t>(one.dimension)];
  for (int64_t i = 0; i < index.numel(); ++i)
    places[i] = i * i % extent;
  tensor::RandomSpec spec{.seed = 5};
  spec.low = -3;
  spec.high = 3;
  return {index, tensor::random_tensor(tensor::parse_dtype(one.dtype).value(), one.index, spec)};
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &one : cases()) {
    INFO(one.name);
    const driver::Compilation chosen = compile(one, true), written = compile(one, false);
    CHECK(scatters(chosen) != one.chooses);
    CHECK(scatters(written));
    std::vector<tensor::HostTensor> inputs = inputs_of(one);
    for (const runtime::SessionOptions &way : ways) {
      const auto session = runtime::Session::create(chosen.program, {}, way);
      const auto found = session->run(inputs);
      const auto expected = runtime::Session::create(written.program, {}, way)->run(inputs);
      for (size_t i = 0; i < found.size(); ++i)
        CHECK(std::memcmp(found[i].data(), expected[i].data(), found[i].size_in_bytes()) == 0);
      for (const int64_t outside : {int64_t{-1}, one.sizes[static_cast<size_t>(one.dimension)]}) {
        std::vector<tensor::HostTensor> wrong = inputs_of(one);
        reinterpret_cast<int64_t *>(wrong[0].data())[wrong[0].numel() - 1] = outside;
        try {
          session->run(wrong);
          FAIL("taken: " << outside);
        } catch (const support::UserError &error) {
          CHECK(error.diagnostics().front().code == "TSC-R127");
          CHECK(error.diagnostics().front().message.find("index " + std::to_string(outside) +
                                                         " of input 'i'") != std::string::npos);
        }
      }
    }
  }
}

/// Rows added or compared where an index says: what a thread changes at once, and how many runs of
/// that it has.
struct RowCase {
  std::string dtype, into;
  int64_t columns;
  json call;
  std::string plan;
};

void check_rows(const std::vector<runtime::SessionOptions> &ways) {
  const json add = {"aten.index_add.default", {"$c", 0, "$i", "$w"}},
             most = {"aten.index_reduce.default", {"$c", 0, "$i", "$w", "amax"}};
  for (const RowCase &each :
       std::vector<RowCase>{{"bfloat16", "float32", 64, add, "4 runs of 4 elements"},
                            {"float32", "float32", 96, add, "2 runs of 4 elements"},
                            {"float32", "float16", 64, add, "2 runs of 8 elements"},
                            {"float32", "float32", 64, most, "8 runs of 1 elements"},
                            {"int32", "int32", 32, most, "8 runs of 1 elements"}}) {
    constexpr int64_t kRows = 70001, kPlaces = 50021;
    testing::MadeGraph graph;
    graph.inputs = {{"x", each.dtype, {kRows, each.columns}},
                    {"i", "int64", {kRows}, 0, kPlaces - 1}};
    graph.calls = {{"f", "aten.full.default", {{kPlaces, each.columns}, 1}},
                   {"c", "prims.convert_element_type.default", {"$f", {{"dtype", each.into}}}},
                   {"w", "prims.convert_element_type.default", {"$x", {{"dtype", each.into}}}},
                   {"y", each.call[0], each.call[1]}};
    graph.outputs = {"y"};
    graph.name = each.dtype + " into " + each.into + ", " + std::to_string(each.columns);
    INFO(graph.name);
    const driver::Compilation compilation = testing::compile_made(graph, false);
    std::string plans;
    for (const program::Kernel &kernel : compilation.program.kernels)
      plans += kernel.plan + "\n";
    INFO(plans);
    CHECK(plans.find(each.plan) != std::string::npos);
    testing::check_made(graph, compilation, 0, ways);
  }
}

} // namespace

TEST_CASE("rows are added by accesses that lie beside each other") {
  check_rows(testing::host_ways());
}

TEST_CASE("rows are added by accesses that lie beside each other on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_rows(ways);
}

TEST_CASE("one place of each row of a constant") { check_all(testing::host_ways()); }

TEST_CASE("one place of each row of a constant on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
