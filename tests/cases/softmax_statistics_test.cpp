// Maxima and sums of exponentials in one walk: rows and columns with infinities and NaN, kept, read
// again, and in parts.
#include "made_graph.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <cmath>
#include <limits>

using namespace tsc;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Case {
  std::string name;
  std::vector<int64_t> sizes; // two
  int64_t dim = 1;            // that is reduced
  std::string plan;           // of one kernel of the GPU's, a part of its text
};

std::vector<Case> cases() {
  return {
      {"kept", {9, 515}, 1, "row kept in registers"},
      {"of whole runs", {9, 1024}, 1, "row kept in registers"},
      {"read again", {140, 66001}, 1, "over the row"},
      {"read again, of whole runs", {140, 67584}, 1, "over the row"},
      {"in parts", {9, 100001}, 1, ""},
      {"short", {3000, 9}, 1, ""},
      {"columns", {300, 45}, 0, "column"},
      {"short columns", {7, 4099}, 0, ""},
  };
}

/// What is odd about each line: of 9, the first three.
void fill(float *x, int64_t lines, int64_t count, int64_t line_step, int64_t step) {
  for (int64_t line = 0; line < lines; ++line)
    for (int64_t i = 0; i < count; ++i) {
      float &element = x[line * line_step + i * step];
      switch (line % 9) {
      case 0:
        element = -kInfinity;
        break;
      case 1:
        element = i == count / 2 ? kInfinity : element;
        break;
      case 2:
        element = i == count - 1 ? std::nanf("") : element;
        break;
      case 3:
        element = i % 3 == 0 ? element : -kInfinity;
        break;
      case 4:
        element = element * 1e4f;
        break;
      case 5:
        element = static_cast<float>(i) * 1e-3f; // each run has a new maximum
        break;
      default:
        break;
      }
    }
}

/// As torch.logsumexp defines it, by doubles.
double logsumexp(const float *x, int64_t count, int64_t step, double *max) {
  *max = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i)
    *max = std::isnan(*max) || x[i * step] <= *max ? *max : double{x[i * step]};
  const double from = std::isinf(*max) ? 0 : *max;
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += std::exp(x[i * step] - from);
  return std::log(sum) + from;
}

bool agrees(double got, double expected) {
  if (std::isnan(expected))
    return std::isnan(got);
  if (std::isinf(expected))
    return got == expected;
  return std::fabs(got - expected) <= 2e-5 * std::max(1e-6, std::fabs(expected));
}

void check_all(const std::vector<runtime::SessionOptions> &ways) {
  for (const Case &each : cases()) {
    INFO(each.name);
    const int64_t rows = each.sizes[0], columns = each.sizes[1];
    for (const bool softmax : {false, true}) {
      const testing::MadeGraph graph{
          each.name,
          {{"x", "float32", each.sizes, -40, 40}},
          {softmax ? nlohmann::json({"y", "aten._softmax.default", {"$x", each.dim, false}})
                   : nlohmann::json({"y", "aten.logsumexp.default", {"$x", {each.dim}}})},
          {"y"},
          {}};
      const driver::Compilation compilation = testing::compile_made(graph, false);
      std::string plans;
      for (const program::Kernel &kernel : compilation.program.kernels)
        plans += kernel.plan + "\n";
      INFO(plans);
      CHECK(plans.find(each.plan) != std::string::npos);
      tensor::RandomSpec spec{.seed = 5};
      spec.low = -9;
      spec.high = 9;
      const tensor::HostTensor input = tensor::random_tensor(tensor::DType::f32, each.sizes, spec);
      auto *x = reinterpret_cast<float *>(input.data());
      const int64_t lines = each.dim == 1 ? rows : columns, count = each.dim == 1 ? columns : rows,
                    line_step = each.dim == 1 ? columns : 1, step = each.dim == 1 ? 1 : columns;
      fill(x, lines, count, line_step, step);
      for (const runtime::SessionOptions &way : ways) {
        const auto outputs = runtime::Session::create(compilation.program, {}, way)->run({input});
        const auto *y = reinterpret_cast<const float *>(outputs[0].data());
        int64_t wrong = 0;
        for (int64_t line = 0; line < lines; ++line) {
          const float *from = x + line * line_step;
          double max = 0;
          const double log = logsumexp(from, count, step, &max);
          if (!softmax)
            wrong += agrees(y[line], log) ? 0 : 1;
          for (int64_t i = 0; softmax && i < count; ++i) // a row with +inf is NaN throughout
            wrong += agrees(y[line * line_step + i * step],
                            std::isinf(max) ? std::nan("") : std::exp(from[i * step] - log))
                         ? 0
                         : 1;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

} // namespace

TEST_CASE("maxima and sums of exponentials in one walk on the host") {
  check_all(testing::plan_ways());
}

TEST_CASE("maxima and sums of exponentials in one walk on the GPU", "[gpu]") {
  if (const auto ways = testing::gpu_ways(); !ways.empty())
    check_all(ways);
}
