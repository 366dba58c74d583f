#include "tensor/summary.h"

#include "support/thread_pool.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tsc::tensor {

namespace {

constexpr int64_t kChunk = int64_t{1} << 18; // elements a task looks at
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Of some elements.
struct Part {
  double low = kInfinity, high = -kInfinity, sum = 0;
  int64_t nan = 0;
};

template <class Element> Part look_at(int64_t begin, int64_t end, const Element &element) {
  Part part;
  for (int64_t i = begin; i < end; ++i) {
    const double value = element(i);
    if (std::isnan(value)) {
      ++part.nan;
      continue;
    }
    part.low = std::min(part.low, value);
    part.high = std::max(part.high, value);
    part.sum += value;
  }
  return part;
}

Part look_at(const HostTensor &tensor, int64_t begin, int64_t end) {
  const auto at = [&](auto type) {
    return reinterpret_cast<const decltype(type) *>(tensor.data());
  };
  if (tensor.is_contiguous()) {
    if (tensor.dtype() == DType::f32)
      return look_at(begin, end, [p = at(float{})](int64_t i) { return double{p[i]}; });
    if (tensor.dtype() == DType::f64)
      return look_at(begin, end, [p = at(double{})](int64_t i) { return p[i]; });
    if (tensor.dtype() == DType::bf16)
      return look_at(begin, end,
                     [p = at(uint16_t{})](int64_t i) { return double{bf16_to_float(p[i])}; });
    if (tensor.dtype() == DType::f16)
      return look_at(begin, end,
                     [p = at(uint16_t{})](int64_t i) { return double{f16_to_float(p[i])}; });
  }
  return look_at(begin, end, [&](int64_t i) { return tensor.get_double(i); });
}

} // namespace

Summary summarize(const HostTensor &tensor) {
  const int64_t count = tensor.numel();
  std::vector<Part> parts(static_cast<size_t>((count + kChunk - 1) / kChunk));
  support::parallel_for(parts.size(), [&](size_t i) {
    const int64_t begin = static_cast<int64_t>(i) * kChunk;
    parts[i] = look_at(tensor, begin, std::min(begin + kChunk, count));
  });
  Part all;
  for (const Part &part : parts) {
    all.low = std::min(all.low, part.low);
    all.high = std::max(all.high, part.high);
    all.sum += part.sum;
    all.nan += part.nan;
  }
  Summary summary;
  summary.nan = all.nan;
  summary.count = count - all.nan;
  if (summary.count > 0) {
    summary.low = all.low;
    summary.high = all.high;
    summary.mean = all.sum / static_cast<double>(summary.count);
  }
  return summary;
}

} // namespace tsc::tensor
