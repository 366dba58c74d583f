// What bags of embeddings note for their backward pass is what the kernels of the graph's device
// note.
#include "driver/compile.h"
#include "driver/reference.h"
#include "graph/read.h"
#include "made_graph.h"
#include "runtime/session.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <utility>

using namespace tsc;

namespace {

/// Of eight indices, 0 to 7, in bags that start at 0, 2 and 6.
std::vector<tensor::HostTensor> bags_on(const std::string &device, int mode, bool last) {
  testing::MadeGraph graph;
  graph.name = "bags";
  graph.inputs = {{"w", "float32", {10, 4}}, {"i", "int32", {8}}, {"o", "int32", {last ? 4 : 3}}};
  graph.calls = nlohmann::json::array();
  graph.calls.push_back(
      {"b", "aten._embedding_bag.default", {"$w", "$i", "$o", false, mode, false, nullptr, last}});
  for (int k = 0; k < 4; ++k) {
    graph.calls.push_back({"r" + std::to_string(k), "operator.getitem", {"$b", k}});
    graph.outputs.push_back("r" + std::to_string(k));
  }
  graph.device = device;
  std::vector<tensor::HostTensor> inputs;
  inputs.push_back(tensor::random_tensor(tensor::DType::f32, {10, 4}, {.seed = 3}));
  const std::vector<int64_t> indices = {0, 1, 2, 3, 4, 5, 6, 7}, starts = {0, 2, 6, 8};
  for (const auto &[values, count] : {std::pair{indices, size_t{8}}, {starts, last ? 4U : 3U}}) {
    tensor::HostTensor list(tensor::DType::i32, {static_cast<int64_t>(count)});
    for (size_t k = 0; k < count; ++k)
      list.set_double(static_cast<int64_t>(k), static_cast<double>(values[k]));
    inputs.push_back(std::move(list));
  }
  const driver::Compilation compilation = testing::compile_made(graph, false);
  return runtime::Session::create(compilation.program, {}, {})->run(inputs);
}

std::vector<double> numbers(const tensor::HostTensor &tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    result.push_back(tensor.get_double(i));
  return result;
}

} // namespace

TEST_CASE("bags of a GPU's graph note every bag and its size, in the indices' type") {
  for (const int mode : {0, 1}) {
    const auto results = bags_on("cuda", mode, false);
    CHECK(numbers(results[1]) == std::vector<double>{0, 0, 1, 1, 1, 1, 2, 2});
    CHECK(numbers(results[2]) == std::vector<double>{2, 4, 2});
    CHECK(results[3].numel() == 0);
    CHECK(results[1].dtype() == tensor::DType::i32);
  }
  const auto largest = bags_on("cuda", 2, false);
  CHECK(largest[3].sizes() == std::vector<int64_t>{3, 4});
  CHECK(bags_on("cuda", 0, true)[2].sizes() == std::vector<int64_t>{4});
}

TEST_CASE("sums of bags of a CPU's graph note no sizes and no bags") {
  const auto results = bags_on("cpu", 0, false);
  CHECK(results[1].numel() == 0);
  CHECK(numbers(results[2]) == std::vector<double>{0, 0, 0});
}

TEST_CASE("bags of a matrix of indices are sums of its rows, whatever its sizes are") {
  // As torch.compile has it: offsets are 0, s1, 2 s1, ...
  const std::string text = R"({"format": "tsc-graph", "version": 1,
    "symbols": {"s0": [1, null, 4001], "s1": [1, null, 7]}, "nodes": [
    {"name": "w", "op": "placeholder", "val": {"dtype": "float32", "size": [30, 12]}},
    {"name": "i", "op": "placeholder", "val": {"dtype": "int64", "size": ["s0", "s1"]}},
    {"name": "o", "op": "call_function", "target": "aten.arange.start_step",
     "args": [0, {"expr": "s0*s1"}, {"expr": "s1"}], "kwargs": {"dtype": {"dtype": "int64"}}},
    {"name": "v", "op": "call_function", "target": "aten.view.default",
     "args": [{"node": "i"}, [-1]]},
    {"name": "b", "op": "call_function", "target": "aten._embedding_bag_forward_only.default",
     "args": [{"node": "w"}, {"node": "v"}, {"node": "o"}, false, 1]},
    {"name": "y", "op": "call_function", "target": "operator.getitem", "args": [{"node": "b"}, 0]},
    {"name": "output", "op": "output", "args": [[{"node": "y"}]]}]})";
  driver::CompileOptions options;
  options.arch = "sm_90";
  const driver::Compilation compilation =
      driver::compile(graph::parse_graph(text, "bags.json"), options);
  for (const program::Kernel &kernel : compilation.program.kernels) {
    INFO(kernel.plan); // of any sizes, and of likely ones
    CHECK(kernel.plan.find("tc_sum") == std::string::npos);
  }
  CHECK(compilation.program.kernels.size() <= 2);
  for (const auto &[bags, length] : {std::pair{4001, 7}, {5, 7}, {3, 1}, {1, 40}}) {
    std::vector<tensor::HostTensor> inputs;
    inputs.push_back(tensor::random_tensor(tensor::DType::f32, {30, 12}, {.seed = 1}));
    inputs.push_back(tensor::random_tensor(tensor::DType::i64, {bags, length},
                                           {.seed = 2, .low = 0, .high = 29}));
    const tensor::HostTensor wanted = driver::run_reference(compilation, inputs, {})[0];
    for (const runtime::SessionOptions &way : testing::host_ways()) {
      const auto outputs = runtime::Session::create(compilation.program, {}, way)->run(inputs);
      REQUIRE(outputs[0].sizes() == wanted.sizes());
      for (int64_t k = 0; k < wanted.numel(); ++k)
        REQUIRE(outputs[0].get_double(k) == Approx(wanted.get_double(k)).margin(1e-5));
    }
  }
}
