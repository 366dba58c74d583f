#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <cmath>
#include <limits>

using namespace tsc::tensor;

namespace {

HostTensor tensor_of(DType dtype, std::vector<int64_t> sizes, const std::vector<double> &values) {
  HostTensor tensor(dtype, std::move(sizes));
  for (size_t i = 0; i < values.size(); ++i)
    tensor.set_double(static_cast<int64_t>(i), values[i]);
  return tensor;
}

constexpr double kInf = std::numeric_limits<double>::infinity();
const double kNan = std::nan("");

} // namespace

TEST_CASE("shapes and dtypes must be equal") {
  Agreement a = compare(HostTensor(DType::f32, {2}), HostTensor(DType::f32, {3}), nullptr);
  CHECK_FALSE(a.ok);
  CHECK(a.reason == "the result is torch.float32[2], expected torch.float32[3]");
  CHECK(compare(HostTensor(DType::f16, {2}), HostTensor(DType::f32, {2}), nullptr).reason ==
        "the result is torch.float16[2], expected torch.float32[2]");
}

TEST_CASE("integers are compared exactly") {
  HostTensor a = tensor_of(DType::i64, {2, 2}, {1, 2, 3, 4});
  CHECK(compare(a, a, nullptr).ok);
  HostTensor b = a.clone();
  b.set_int64(2, 5);
  Agreement result = compare(b, a, nullptr);
  CHECK_FALSE(result.ok);
  CHECK(result.worst_index == 2);
  CHECK(result.reason == "the value at [1, 0] is 5, expected 3");
}

TEST_CASE("NaN and infinities stand in the same places") {
  HostTensor e = tensor_of(DType::f32, {4}, {1, kNan, kInf, -kInf});
  Agreement same = compare(e, e, nullptr);
  CHECK(same.ok);
  CHECK(same.nonfinite == 3);
  Agreement flipped = compare(tensor_of(DType::f32, {4}, {1, kNan, -kInf, -kInf}), e, nullptr);
  CHECK_FALSE(flipped.ok);
  CHECK(flipped.reason == "the value at [2] is -inf, expected inf");
  CHECK_FALSE(compare(tensor_of(DType::f32, {4}, {kNan, kNan, kInf, -kInf}), e, nullptr).ok);
}

TEST_CASE("one garbage row is found although the norm hides it") {
  std::vector<double> values(1000 * 4, 1.0);
  for (size_t i = 0; i < 4; ++i)
    values[i] = 1e-6; // a row of small numbers
  HostTensor e = tensor_of(DType::f32, {1000, 4}, values);
  HostTensor a = e.clone();
  a.set_double(1, 2e-6);
  Agreement result = compare(a, e, nullptr);
  CHECK(result.norm_error < result.norm_bound);
  CHECK_FALSE(result.ok);
  CHECK(result.worst_index == 1);
  CHECK(result.reason.find("the value at [0, 1] is") == 0);
}

TEST_CASE("small drift everywhere is found by the norm") {
  std::vector<double> values(64, 1.0);
  HostTensor e = tensor_of(DType::f16, {64}, values);
  HostTensor a = tensor_of(DType::f16, {64}, std::vector<double>(64, 1.0 + 0x1p-10 * 4));
  AgreementRule rule;
  rule.norm_bound = 1e-3;
  Agreement result = compare(a, e, nullptr, rule);
  CHECK(result.worst_element == 1);
  CHECK_FALSE(result.ok);
  CHECK(result.reason == "the relative error of the norm is 0.00390625, at most 0.001 is allowed");
}

TEST_CASE("eager's own error widens the bound of elements") {
  HostTensor reference = tensor_of(DType::f64, {2}, {1.0, 1.0});
  HostTensor eager = tensor_of(DType::f32, {2}, {1.0, 1.0 + 8e-6});
  HostTensor actual = tensor_of(DType::f32, {2}, {1.0 + 9e-6, 1.0});
  CHECK(compare(actual, eager, &reference).ok);
  CHECK_FALSE(compare(actual, tensor_of(DType::f32, {2}, {1.0, 1.0}), &reference).ok);
}

TEST_CASE("an outlier is measured at its own scale") {
  std::vector<double> values(10000, 1e-3);
  values[5] = 1000.0;
  HostTensor e = tensor_of(DType::bf16, {10000}, values);
  HostTensor a = e.clone();
  a.set_double(5, e.get_double(5) + 4.0); // one unit in the last place
  CHECK(compare(a, e, nullptr).ok);
}

TEST_CASE("empty tensors, scalars and zeros agree") {
  CHECK(compare(HostTensor(DType::f32, {0, 3}), HostTensor(DType::f32, {0, 3}), nullptr).ok);
  CHECK(compare(HostTensor(DType::f32, {3, 0}), HostTensor(DType::f32, {3, 0}), nullptr).ok);
  HostTensor zero = tensor_of(DType::f32, {}, {0});
  CHECK(compare(zero, zero, nullptr).ok);
  CHECK_FALSE(compare(tensor_of(DType::f32, {}, {1e-30}), zero, nullptr).ok);
}
