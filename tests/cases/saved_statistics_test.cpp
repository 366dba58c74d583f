// What batch normalization saves for its backward pass is what the kernels of the graph's device
// save: a GPU's in the type they compute with, outside training too.
#include "made_graph.h"
#include "runtime/session.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <cmath>

using namespace tsc;

namespace {

/// (output, saved mean, saved rstd) of float16 [4, 3, 5], one of float16 for all `parameters`.
std::vector<tensor::HostTensor> normalized_on(const std::string &device, const std::string &target,
                                              size_t parameters, const nlohmann::json &flags) {
  testing::MadeGraph graph;
  graph.name = "normalized";
  graph.inputs = {{"x", "float16", {4, 3, 5}}, {"w", "float16", {3}}};
  nlohmann::json call = {"b", target, {"$x", "$w"}};
  for (size_t i = 1; i < parameters; ++i)
    call[2].push_back("$w");
  call[2].insert(call[2].end(), flags.begin(), flags.end());
  graph.calls = nlohmann::json::array({call});
  for (int k = 0; k < 3; ++k) {
    graph.calls.push_back({"r" + std::to_string(k), "operator.getitem", {"$b", k}});
    graph.outputs.push_back("r" + std::to_string(k));
  }
  graph.device = device;
  std::vector<tensor::HostTensor> inputs;
  inputs.push_back(tensor::random_tensor(tensor::DType::f16, {4, 3, 5}, {.seed = 3}));
  tensor::HostTensor parameter(tensor::DType::f16, {3});
  for (int64_t i = 0; i < 3; ++i)
    parameter.set_double(i, 0.5 + static_cast<double>(i));
  inputs.push_back(std::move(parameter));
  const driver::Compilation compilation = testing::compile_made(graph, false);
  return runtime::Session::create(compilation.program, {}, {})->run(inputs);
}

} // namespace

TEST_CASE("a GPU's batch normalization saves float32 statistics of float16") {
  const nlohmann::json flags = {true, 0.1, 1e-5};
  const auto results = normalized_on("cuda", "aten._native_batch_norm_legit.no_stats", 2, flags);
  CHECK(results[1].dtype() == tensor::DType::f32);
  CHECK(results[2].dtype() == tensor::DType::f32);
  const auto on_cpu = normalized_on("cpu", "aten._native_batch_norm_legit.no_stats", 2, flags);
  CHECK(on_cpu[1].dtype() == tensor::DType::f16);
  for (int64_t i = 0; i < 3; ++i)
    CHECK(std::fabs(results[1].get_double(i) - on_cpu[1].get_double(i)) < 1e-3);
}

TEST_CASE("outside training a GPU's batch normalization saves what it normalized with") {
  const nlohmann::json rates = {0.1, 1e-5};
  const auto results =
      normalized_on("cuda", "aten._native_batch_norm_legit_no_training.default", 4, rates);
  REQUIRE(results[1].dtype() == tensor::DType::f32);
  REQUIRE(results[1].numel() == 3);
  for (int64_t i = 0; i < 3; ++i) {
    const double recorded = 0.5 + static_cast<double>(i);
    CHECK(results[1].get_double(i) == recorded);
    CHECK(std::fabs(results[2].get_double(i) - 1 / std::sqrt(recorded + 1e-5)) < 1e-6);
  }
  const auto on_cpu =
      normalized_on("cpu", "aten._native_batch_norm_legit_no_training.default", 4, rates);
  CHECK(on_cpu[1].numel() == 0);
  CHECK(on_cpu[1].dtype() == tensor::DType::f16);
}
