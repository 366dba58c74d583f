// Quantiles, which PyTorch exports for GPUs alone (on a CPU it looks at the numbers): values that
// eager mode gives, on the host and by the reference.
#include "driver/reference.h"
#include "made_graph.h"
#include "runtime/session.h"
#include "support/diagnostic.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <cmath>
#include <limits>

using namespace tsc;

namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();

driver::Compilation quantile(const std::string &target, const nlohmann::json &arguments,
                             const nlohmann::json &keywords) {
  testing::MadeGraph graph;
  graph.name = "quantile";
  graph.inputs = {{"x", "float32", {2, 5}}, {"q", "float32", {3}}};
  graph.calls = nlohmann::json::array();
  graph.calls.push_back({"y", target, arguments, keywords});
  graph.outputs = {"y"};
  graph.device = "cuda";
  return testing::compile_made(graph, false);
}

/// Of [[4, 1, 3, 2, 10], [nan, 1, 2, 5, 3]], and of 0, 0.5 and 1.
std::vector<double> numbers(const std::string &target, const nlohmann::json &arguments,
                            const nlohmann::json &keywords = nlohmann::json::object()) {
  std::vector<tensor::HostTensor> inputs;
  inputs.emplace_back(tensor::DType::f32, std::vector<int64_t>{2, 5});
  inputs.emplace_back(tensor::DType::f32, std::vector<int64_t>{3});
  const std::vector<double> x = {4, 1, 3, 2, 10, kNan, 1, 2, 5, 3}, q = {0, 0.5, 1};
  for (size_t i = 0; i < x.size(); ++i)
    inputs[0].set_double(static_cast<int64_t>(i), x[i]);
  for (size_t i = 0; i < q.size(); ++i)
    inputs[1].set_double(static_cast<int64_t>(i), q[i]);
  const driver::Compilation compilation = quantile(target, arguments, keywords);
  const auto results = runtime::Session::create(compilation.program, {}, {})->run(inputs);
  std::vector<double> found;
  for (int64_t i = 0; i < results[0].numel(); ++i)
    found.push_back(results[0].get_double(i));
  return found;
}

void check(const std::vector<double> &found, const std::vector<double> &expected) {
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i) {
    INFO("element " << i << ": " << found[i] << ", expected " << expected[i]);
    CHECK((std::isnan(expected[i]) ? std::isnan(found[i])
                                   : std::fabs(found[i] - expected[i]) < 1e-6));
  }
}

} // namespace

TEST_CASE("quantiles of rows are between two elements, and NaN of a row that holds one") {
  check(numbers("aten.quantile.scalar", {"$x", 0.3, -1, false}), {2.2, kNan});
  check(numbers("aten.nanquantile.scalar", {"$x", 0.3, -1, false}), {2.2, 1.9});
  check(numbers("aten.quantile.scalar", {"$x", 0.3, 1, true}, {{"interpolation", "lower"}}),
        {2, kNan});
  check(numbers("aten.quantile.scalar", {"$x", 0.3, 1, true}, {{"interpolation", "higher"}}),
        {3, kNan});
  check(numbers("aten.nanquantile.scalar", {"$x", 0.5, 1}, {{"interpolation", "midpoint"}}),
        {3, 2.5});
  check(numbers("aten.nanquantile.scalar", {"$x", 0.5, 1}, {{"interpolation", "nearest"}}), {3, 3});
}

TEST_CASE("quantiles for a list of fractions have these first") {
  check(numbers("aten.nanquantile.default", {"$x", "$q", 1, false}), {1, 1, 3, 2.5, 10, 5});
  check(numbers("aten.quantile.default", {"$x", "$q", 0, true}),
        {kNan, 1, 2, 2, 3, kNan, 1, 2.5, 3.5, 6.5, kNan, 1, 3, 5, 10});
  check(numbers("aten.nanquantile.default", {"$x", "$q"}), {1, 3, 10});
}

TEST_CASE("quantiles of fractions that are none are refused") {
  CHECK_THROWS_AS(quantile("aten.quantile.scalar", {"$x", 1.5, 1}, nlohmann::json::object()),
                  support::UserError);
  CHECK_THROWS_AS(quantile("aten.quantile.scalar", {"$x", 0.5, 1}, {{"interpolation", "cubic"}}),
                  support::UserError);
}
