// One place of each row of a constant, written: a choice by position gives what writing gives.
#include "made_graph.h"

#include "driver/reference.h"
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

/// Sums in a fixed order beside atomic ones: few places, so that whole pieces go to one of them,
/// many, none that divides an access, a count of rows that a run decides.
struct OrderedCase {
  std::string dtype;
  int64_t rows, columns, places;
  bool is_dynamic = false;
};

void check_ordered(const std::vector<runtime::SessionOptions> &ways) {
  for (const OrderedCase &each : std::vector<OrderedCase>{{"bfloat16", 1000, 64, 3},
                                                          {"float16", 700, 24, 1},
                                                          {"float32", 2000, 129, 500},
                                                          {"float64", 600, 6, 2},
                                                          {"float32", 9001, 1, 70000},
                                                          {"float32", 900, 2500, 4},
                                                          {"float32", 700, 8, 3, true}}) {
    testing::MadeGraph graph;
    graph.name = each.dtype + " " + std::to_string(each.rows) + " x " +
                 std::to_string(each.columns) + " to " + std::to_string(each.places);
    INFO(graph.name);
    graph.inputs = {{"x", each.dtype, {each.rows, each.columns}, 0, 2}};
    const double scale = static_cast<double>(each.places) * 0.77;
    graph.calls = {
        {"first", "aten.select.int", {"$x", 1, 0}},
        {"wide", "prims.convert_element_type.default", {"$first", {{"dtype", "float64"}}}},
        {"scaled", "aten.mul.Tensor", {"$wide", scale}},
        {"whole", "prims.convert_element_type.default", {"$scaled", {{"dtype", "int64"}}}},
        {"i", "aten.remainder.Scalar", {"$whole", each.places}},
        {"f", "aten.full.default", {{each.places, each.columns}, 1}},
        {"c", "prims.convert_element_type.default", {"$f", {{"dtype", each.dtype}}}},
        {"y", "aten.index_add.default", {"$c", 0, "$i", "$x"}}};
    graph.outputs = {"y"};
    const driver::Compilation atomic = testing::compile_made(graph, each.is_dynamic);
    graph.policy_options = {"deterministic=on"};
    const driver::Compilation ordered = testing::compile_made(graph, each.is_dynamic);
    CHECK(ordered.program.kernels.size() > atomic.program.kernels.size());
    const std::vector<tensor::HostTensor> inputs = {tensor::random_tensor(
        tensor::parse_dtype(each.dtype).value(), {each.rows, each.columns}, {.seed = 3})};
    driver::ReferenceOptions exact;
    exact.round_buffers = false;
    const auto expected = driver::run_reference(ordered, inputs, {}),
               reference = driver::run_reference(atomic, inputs, {}, exact);
    for (const runtime::SessionOptions &way : ways) {
      const auto session = runtime::Session::create(ordered.program, {}, way);
      const auto found = session->run(inputs), again = session->run(inputs);
      CHECK(std::memcmp(found[0].data(), again[0].data(), found[0].size_in_bytes()) == 0);
      const tensor::Agreement agreement = tensor::compare(found[0], expected[0], &reference[0]);
      INFO(agreement.reason);
      CHECK(agreement.ok);
    }
  }
}

} // namespace

TEST_CASE("products at run-time indices are refused where an order is asked for") {
  testing::MadeGraph graph;
  graph.inputs = {{"x", "float32", {7, 5}}, {"i", "int64", {7, 5}, 0, 2}};
  graph.calls = {{"y", "aten.scatter_reduce.two", {"$x", 0, "$i", "$x", "prod"}}};
  graph.outputs = {"y"};
  testing::compile_made(graph, false);
  graph.policy_options = {"deterministic=on"};
  try {
    testing::compile_made(graph, false);
    FAIL("taken");
  } catch (const support::UserError &error) {
    CHECK(support::to_string(error.diagnostics().front()) ==
          "error TSC-O218: aten.scatter_reduce.two of floats with reduce='prod' multiplies in the "
          "order in which threads come\n"
          "  at node y\n"
          "  next: compile without --deterministic, or multiply another way");
  }
}

TEST_CASE("sums in a fixed order are those of atomic additions") {
  check_ordered(testing::plan_ways());
}

TEST_CASE("sums in a fixed order are those of atomic additions on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_ordered(ways);
}

TEST_CASE("rows are added by accesses that lie beside each other") {
  check_rows(testing::plan_ways());
}

TEST_CASE("rows are added by accesses that lie beside each other on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_rows(ways);
}

TEST_CASE("one place of each row of a constant") { check_all(testing::plan_ways()); }

TEST_CASE("one place of each row of a constant on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
