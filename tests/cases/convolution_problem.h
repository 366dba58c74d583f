// A convolution of given sizes as a graph.
#pragma once

#include "made_graph.h"

#include <numeric>

namespace tsc::testing {

using Sizes = std::vector<int64_t>;

struct ConvolutionProblem {
  std::string dtype;
  size_t rank = 2;
  int64_t batch = 1, channels = 1, outputs = 1, groups = 1;
  Sizes sizes, kernel, stride, padding, dilation; // by spatial dimension
  bool after_relu = false, bias = false, transposed = false;
  Sizes more;               // transposed: outputs at the end, by spatial dimension
  std::string tf32 = "off"; // --tf32

  Sizes positions() const {
    Sizes result;
    for (size_t i = 0; i < rank; ++i)
      if (transposed)
        result.push_back((sizes[i] - 1) * stride[i] - 2 * padding[i] +
                         dilation[i] * (kernel[i] - 1) + more[i] + 1);
      else
        result.push_back(
            (sizes[i] + 2 * padding[i] - dilation[i] * (kernel[i] - 1) - 1) / stride[i] + 1);
    return result;
  }
  std::string text() const {
    return nlohmann::json{
        {"dtype", dtype},           {"batch", batch},       {"channels", channels},
        {"outputs", outputs},       {"groups", groups},     {"sizes", sizes},
        {"kernel", kernel},         {"stride", stride},     {"padding", padding},
        {"relu", after_relu},       {"dilation", dilation}, {"bias", bias},
        {"transposed", transposed}, {"more", more},         {"tf32", tf32}}
        .dump();
  }
};

inline Sizes joined(Sizes left, const Sizes &right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}
inline int64_t count_of(const Sizes &sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

/// Its inputs are x, w and b, its output y.
MadeGraph graph_of(const ConvolutionProblem &p);
/// Runs with random inputs in each of `ways`, and checks every output against the convolution's
/// definition in float64, by the magnitude of its terms.
void check_compiled(const ConvolutionProblem &p, const MadeGraph &graph,
                    const driver::Compilation &compilation,
                    const std::vector<runtime::SessionOptions> &ways);

} // namespace tsc::testing
