// Recurrent layers over any number of steps, and what the plans are of classes that are easily
// forgotten: many small matrices, rows that are looked up, numbers a colour.
#include "made_graph.h"
#include "program/program.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>

using namespace tsc;
using nlohmann::json;

namespace {

using testing::MadeGraph;

/// A layer of `width` with biases over [steps, 3, 4], of an LSTM with states projected to
/// `projection` values, if any.
MadeGraph recurrent(const std::string &target, int64_t gates, int64_t width, int64_t steps,
                    bool is_two_ways, int64_t projection = 0) {
  MadeGraph graph;
  graph.name = target;
  graph.calls = json::array();
  const bool is_lstm = gates == 4;
  const int64_t ways = is_two_ways ? 2 : 1;
  const double large =
      1 / std::sqrt(static_cast<double>(width)); // more, and rounding grows from step to step
  graph.inputs.push_back({"x", "float32", {steps, 3, 4}});
  const int64_t handed_on = projection > 0 ? projection : width;
  graph.inputs.push_back({"h", "float32", {ways, 3, handed_on}, -1, 1});
  json states = "$h", parameters = json::array();
  if (is_lstm) {
    graph.inputs.push_back({"c", "float32", {ways, 3, width}, -1, 1});
    states = json::array({"$h", "$c"});
  }
  std::vector<std::pair<std::string, std::vector<int64_t>>> of_way = {
      {"wi", {gates * width, 4}},
      {"wh", {gates * width, handed_on}},
      {"bi", {gates * width}},
      {"bh", {gates * width}}};
  if (projection > 0)
    of_way.emplace_back("wr", std::vector<int64_t>{projection, width});
  for (int64_t way = 0; way < ways; ++way)
    for (const auto &[name, sizes] : of_way) {
      const std::string input = name + std::to_string(way);
      graph.inputs.push_back({input, "float32", sizes});
      graph.calls.push_back({"scaled_" + input, "aten.mul.Tensor", {"$" + input, large}});
      parameters.push_back("$scaled_" + input);
    }
  graph.calls.push_back(
      {"y", target, {"$x", states, parameters, true, 1, 0.0, false, is_two_ways, false}});
  graph.calls.push_back({"out", "operator.getitem", {"$y", 0}});
  graph.calls.push_back({"last", "operator.getitem", {"$y", 1}});
  graph.outputs = {"out", "last"};
  if (is_lstm) {
    graph.calls.push_back({"cells", "operator.getitem", {"$y", 2}});
    graph.outputs.push_back("cells");
  }
  return graph;
}

bool has_plan(const driver::Compilation &compiled, const std::string &words) {
  const std::vector<program::Kernel> &kernels = compiled.program.kernels;
  return std::any_of(kernels.begin(), kernels.end(), [&](const program::Kernel &kernel) {
    return kernel.plan.find(words) != std::string::npos;
  });
}

template <class Step> size_t count(const driver::Compilation &compiled) {
  const auto &steps = compiled.program.steps;
  return static_cast<size_t>(std::count_if(steps.begin(), steps.end(), [](const auto &step) {
    return std::holds_alternative<Step>(step.kind);
  }));
}

} // namespace

TEST_CASE("recurrent layers over any number of steps are one kernel a direction") {
  for (const auto &[target, gates] : std::vector<std::pair<std::string, int64_t>>{
           {"aten.lstm.input", 4}, {"aten.gru.input", 3}, {"aten.rnn_relu.input", 1}})
    for (const bool is_two_ways : {false, true}) {
      INFO(target << (is_two_ways ? ", two ways" : ""));
      const driver::Compilation dynamic =
          testing::compile_made(recurrent(target, gates, 10, 6, is_two_ways), true);
      CHECK(has_plan(dynamic, "tc_recurrent<"));
      for (const int64_t steps : {2, 5, 33}) {
        MadeGraph written_out = recurrent(target, gates, 10, steps, is_two_ways);
        written_out.arch = "host";
        const driver::Compilation oracle = testing::compile_made(written_out, false);
        CHECK_FALSE(has_plan(oracle, "tc_recurrent"));
        testing::check_made(written_out, dynamic, oracle, steps, testing::host_ways());
      }
    }
}

TEST_CASE("steps of projected LSTMs are one kernel, and their projection one product") {
  for (const bool is_two_ways : {false, true})
    for (const int64_t projection : {1, 5}) {
      INFO("projected to " << projection << (is_two_ways ? ", two ways" : ""));
      const driver::Compilation dynamic = testing::compile_made(
          recurrent("aten.lstm.input", 4, 10, 6, is_two_ways, projection), true);
      CHECK(has_plan(dynamic, "tc_recurrent<"));
      for (const int64_t steps : {2, 5, 33}) {
        MadeGraph written_out = recurrent("aten.lstm.input", 4, 10, steps, is_two_ways, projection);
        written_out.arch = "host";
        const driver::Compilation oracle = testing::compile_made(written_out, false);
        CHECK_FALSE(has_plan(oracle, "tc_recurrent"));
        testing::check_made(written_out, dynamic, oracle, steps, testing::host_ways());
      }
    }
}

TEST_CASE("projected LSTMs on the GPU", "[gpu]") {
  const MadeGraph graph = recurrent("aten.lstm.input", 4, 300, 6, true, 77);
  const driver::Compilation dynamic = testing::compile_made(graph, true);
  for (const int64_t steps : {2, 40})
    testing::check_made(graph, dynamic, steps, testing::gpu_ways());
}

TEST_CASE("recurrent layers over any number of steps on the GPU", "[gpu]") {
  const MadeGraph graph = recurrent("aten.gru.input", 3, 300, 6, true);
  const driver::Compilation dynamic = testing::compile_made(graph, true);
  for (const int64_t steps : {2, 40})
    testing::check_made(graph, dynamic, steps, testing::gpu_ways());
}

TEST_CASE("products of few terms and few columns are no library's") {
  MadeGraph graph;
  graph.name = "small";
  graph.inputs = {{"a", "float32", {3000, 3, 3}}, {"b", "float32", {3000, 3, 3}}};
  graph.calls = {{"y", "aten.bmm.default", {"$a", "$b"}}, {"z", "aten.relu.default", {"$y"}}};
  graph.outputs = {"z"};
  const driver::Compilation small = testing::compile_made(graph, false);
  CHECK(count<program::Matmul>(small) == 0);
  CHECK(small.program.kernels.size() == 1);
  testing::check_made(graph, small, 0, testing::host_ways());
  graph.inputs = {{"a", "float32", {300, 9, 9}}, {"b", "float32", {300, 9, 9}}};
  CHECK(count<program::Matmul>(testing::compile_made(graph, false)) == 1);
}

TEST_CASE("products with a vector are sums, fused with what is around them") {
  const auto product = [](const std::string &name, const std::string &dtype,
                          const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
    MadeGraph graph;
    graph.name = name;
    graph.inputs = {{"a", dtype, a, -1, 1}, {"b", dtype, b, -1, 1}};
    graph.calls = {{"y", "aten.matmul.default", {"$a", "$b"}},
                   {"z", "aten.sigmoid.default", {"$y"}}};
    graph.outputs = {"z"};
    return graph;
  };
  for (const MadeGraph &graph :
       {product("matrix and column", "float32", {70, 133}, {133}),
        product("16-bit matrix and column", "bfloat16", {70, 133}, {133, 1}),
        product("row and matrix", "float32", {1, 133}, {133, 70}),
        product("16-bit row and matrix", "float16", {133}, {133, 70}),
        product("batches", "float64", {5, 7, 33}, {5, 33, 1}),
        product("no terms", "float32", {70, 0}, {0, 1})}) {
    INFO(graph.name);
    const driver::Compilation compiled = testing::compile_made(graph, false);
    CHECK(count<program::Matmul>(compiled) == 0);
    CHECK(compiled.program.kernels.size() == 1);
    testing::check_made(graph, compiled, 0, testing::host_ways());
  }
}

TEST_CASE("a vector that takes long to compute is not computed anew for each row") {
  MadeGraph graph;
  graph.name = "a costly vector";
  graph.inputs = {{"a", "bfloat16", {70, 136}, -1, 1}, {"v", "bfloat16", {136}, -1, 1}};
  graph.calls = {{"t", "aten.tanh.default", {"$v"}},
                 {"e", "aten.exp.default", {"$t"}},
                 {"y", "aten.matmul.default", {"$a", "$e"}}};
  graph.outputs = {"y"};
  const driver::Compilation compiled = testing::compile_made(graph, false);
  CHECK(compiled.program.steps.size() == 2);
  testing::check_made(graph, compiled, 0, testing::host_ways());
}

TEST_CASE("matrices of up to 32 rows are a kernel's, larger ones one call of a "
          "library") {
  const auto inverse = [](int64_t size) {
    MadeGraph graph;
    graph.name = "inverse";
    graph.inputs = {{"a", "float32", {5, size, size}}};
    graph.calls = {{"y", "aten.linalg_inv_ex.default", {"$a"}},
                   {"z", "operator.getitem", {"$y", 0}}};
    graph.outputs = {"z"};
    return graph;
  };
  const driver::Compilation small = testing::compile_made(inverse(32), false);
  CHECK(count<program::Solver>(small) == 0);
  CHECK(has_plan(small, "tc_matrix_lu<32, 32>"));
  CHECK(count<program::Solver>(testing::compile_made(inverse(33), false)) == 2);
  MadeGraph on_host = inverse(4);
  on_host.arch = "host";
  CHECK(count<program::Solver>(testing::compile_made(on_host, false)) == 2);
}

TEST_CASE("threads share a row that is looked up") {
  MadeGraph graph;
  graph.name = "scores";
  graph.inputs = {{"u", "float32", {20000, 64}},
                  {"v", "float32", {10000, 64}},
                  {"i", "int64", {50000}, 0, 19999},
                  {"j", "int64", {50000}, 0, 9999}};
  graph.calls = {{"a", "aten.index.Tensor", {"$u", {"$i"}}},
                 {"b", "aten.index.Tensor", {"$v", {"$j"}}},
                 {"m", "aten.mul.Tensor", {"$a", "$b"}},
                 {"y", "aten.sum.dim_IntList", {"$m", {-1}}}};
  graph.outputs = {"y"};
  const driver::Compilation compiled = testing::compile_made(graph, false);
  CHECK(has_plan(compiled, "8 threads a row"));
  testing::check_made(graph, compiled, 0, testing::host_ways());
}

TEST_CASE("numbers a colour are a thread's once") {
  MadeGraph graph;
  graph.name = "image";
  graph.inputs = {{"x", "uint8", {8, 512, 512, 3}, 0, 255},
                  {"m", "float32", {3}},
                  {"s", "float32", {3}, 0.5, 2}};
  graph.calls = {{"f", "prims.convert_element_type.default", {"$x", {{"dtype", "float32"}}}},
                 {"d", "aten.sub.Tensor", {"$f", "$m"}},
                 {"q", "aten.div.Tensor", {"$d", "$s"}},
                 {"y", "prims.convert_element_type.default", {"$q", {{"dtype", "float16"}}}}};
  graph.outputs = {"y"};
  const driver::Compilation compiled = testing::compile_made(graph, false);
  CHECK(has_plan(compiled, "a short loop a thread"));
  testing::check_made(graph, compiled, 0, testing::host_ways());
}
