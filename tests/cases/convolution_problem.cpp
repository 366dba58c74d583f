#include "convolution_problem.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tsc::testing {

using nlohmann::json;

namespace {

/// Position number `at` of `sizes`, row-major.
Sizes unravel(int64_t at, const Sizes &sizes) {
  Sizes result(sizes.size());
  for (size_t i = sizes.size(); i-- > 0; at /= sizes[i])
    result[i] = at % sizes[i];
  return result;
}

/// The sum at one output, and the sum of its terms' magnitudes.
std::pair<double, double> sum_at(const ConvolutionProblem &p, const std::vector<double> &x,
                                 const std::vector<double> &w, const std::vector<double> &b,
                                 int64_t n, int64_t o, const Sizes &position) {
  const int64_t each = p.channels / p.groups, others = p.outputs / p.groups,
                first = o / others * each;
  double sum = p.bias ? b[static_cast<size_t>(o)] : 0, magnitude = std::fabs(sum);
  for (int64_t tap = 0; tap < count_of(p.kernel); ++tap) {
    const Sizes k = unravel(tap, p.kernel);
    int64_t place = 0;
    bool inside = true;
    for (size_t i = 0; i < p.rank; ++i) {
      // Transposed: output + padding = input * stride + tap * dilation.
      const int64_t from = position[i] + p.padding[i] - k[i] * p.dilation[i];
      inside = inside && (!p.transposed || (from >= 0 && from % p.stride[i] == 0));
      const int64_t at = p.transposed
                             ? from / p.stride[i]
                             : position[i] * p.stride[i] + k[i] * p.dilation[i] - p.padding[i];
      inside = inside && at >= 0 && at < p.sizes[i];
      place = place * p.sizes[i] + at;
    }
    for (int64_t c = 0; inside && c < each; ++c) {
      const double value =
          x[static_cast<size_t>((n * p.channels + first + c) * count_of(p.sizes) + place)];
      const int64_t row = p.transposed ? (first + c) * others + o % others : o * each + c;
      const double term = (p.after_relu ? std::max(value, 0.0) : value) *
                          w[static_cast<size_t>(row * count_of(p.kernel) + tap)];
      sum += term;
      magnitude += std::fabs(term);
    }
  }
  return {sum, magnitude};
}

std::vector<double> numbers(const tensor::HostTensor &tensor) {
  std::vector<double> result;
  for (int64_t i = 0; i < tensor.numel(); ++i)
    result.push_back(tensor.get_double(i));
  return result;
}

} // namespace

MadeGraph graph_of(const ConvolutionProblem &p) {
  MadeGraph graph;
  graph.name = p.text();
  graph.inputs = {{"x", p.dtype, joined({p.batch, p.channels}, p.sizes)},
                  {"w", p.dtype,
                   joined(p.transposed ? Sizes{p.channels, p.outputs / p.groups}
                                       : Sizes{p.outputs, p.channels / p.groups},
                          p.kernel)},
                  {"b", p.dtype, {p.outputs}}};
  graph.calls = json::array();
  if (p.after_relu)
    graph.calls.push_back({"r", "aten.relu.default", {"$x"}});
  graph.calls.push_back({"y",
                         "aten.convolution.default",
                         {p.after_relu ? "$r" : "$x", "$w", p.bias ? json("$b") : json(), p.stride,
                          p.padding, p.dilation, p.transposed, p.more, p.groups}});
  graph.policy_options = {"tf32=" + p.tf32};
  graph.outputs = {"y"};
  return graph;
}

void check_compiled(const ConvolutionProblem &p, const MadeGraph &graph,
                    const driver::Compilation &compilation,
                    const std::vector<runtime::SessionOptions> &ways) {
  std::vector<tensor::HostTensor> inputs;
  std::vector<std::vector<double>> values;
  for (const MadeInput &input : graph.inputs) {
    tensor::RandomSpec spec{.seed = 3 + inputs.size()};
    spec.low = -1;
    spec.high = 1;
    inputs.push_back(
        tensor::random_tensor(tensor::parse_dtype(input.dtype).value(), input.sizes, spec));
    values.push_back(numbers(inputs.back()));
  }
  const double epsilon = p.dtype == "float32" ? 1e-6 : p.dtype == "float16" ? 1e-3 : 8e-3;
  const Sizes positions = p.positions();
  for (const runtime::SessionOptions &way : ways) {
    const bool rounds =
        p.tf32 != "off" && p.dtype == "float32" && way.device == runtime::DeviceKind::cuda;
    const auto outputs = runtime::Session::create(compilation.program, {}, way)->run(inputs);
    REQUIRE(outputs[0].sizes() == joined({p.batch, p.outputs}, positions));
    const std::vector<double> found = numbers(outputs[0]);
    size_t wrong = 0;
    for (size_t i = 0; i < found.size(); ++i) {
      const Sizes at = unravel(static_cast<int64_t>(i), outputs[0].sizes());
      const auto [sum, magnitude] =
          sum_at(p, values[0], values[1], values[2], at[0], at[1], Sizes(at.begin() + 2, at.end()));
      wrong += std::fabs(found[i] - sum) <= (rounds ? 1e-3 : epsilon) * (magnitude + 1) ? 0 : 1;
    }
    INFO(graph.name);
    CHECK(wrong == 0);
  }
}

} // namespace tsc::testing
