#include "tensor/summary.h"
#include "testing/catch.h"

#include <cmath>

using namespace tsc;
using tensor::DType;
using tensor::HostTensor;

TEST_CASE("a summary says what a tensor of each type holds") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i16}) {
    HostTensor x(dtype, {3, 200003}); // several chunks, the last one short
    double sum = 0;
    for (int64_t i = 0; i < x.numel(); ++i) {
      const double value = static_cast<double>(i % 7) - 2;
      x.set_double(i, value);
      sum += value;
    }
    INFO(tensor::short_name(dtype));
    const tensor::Summary summary = tensor::summarize(x);
    CHECK(summary.low == -2);
    CHECK(summary.high == 4);
    CHECK(summary.mean == Approx(sum / static_cast<double>(x.numel())));
    CHECK(summary.count == x.numel());
    CHECK(summary.nan == 0);
  }
}

TEST_CASE("NaN is counted apart, and no element is none") {
  HostTensor x(DType::f32, {4});
  const double values[] = {std::nan(""), -INFINITY, 3, std::nan("")};
  for (int64_t i = 0; i < 4; ++i)
    x.set_double(i, values[i]);
  const tensor::Summary summary = tensor::summarize(x);
  CHECK(summary.nan == 2);
  CHECK(summary.count == 2);
  CHECK(summary.low == -INFINITY);
  CHECK(summary.high == 3);
  x.set_double(1, std::nan(""));
  x.set_double(2, std::nan(""));
  CHECK(tensor::summarize(x).count == 0);
  CHECK(tensor::summarize(HostTensor(DType::bf16, {0, 5})).count == 0);
}

TEST_CASE("a summary of a view looks at its own elements") {
  const HostTensor x = tensor::random_tensor(DType::bf16, {50, 30}, {.seed = 3});
  const HostTensor view(DType::bf16, {30, 10}, {1, 60}, nullptr, x.data(), false);
  const tensor::Summary seen = tensor::summarize(view), copied = tensor::summarize(view.clone());
  CHECK(seen.low == copied.low);
  CHECK(seen.high == copied.high);
  CHECK(seen.mean == copied.mean);
}
