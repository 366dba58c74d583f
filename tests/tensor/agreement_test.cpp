#include "tensor/complex_memory.h"
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

TEST_CASE("expected values that contradict their reference say so") {
  std::vector<double> values;
  for (int i = 0; i < 64; ++i)
    values.push_back(std::sin(i) + 2);
  const HostTensor reference = tensor_of(DType::f64, {8, 8}, values);
  const std::string start = "the expected values and their reference disagree with each other: ";
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    INFO(torch_name(dtype));
    const HostTensor actual = tensor_of(dtype, {8, 8}, values);
    CHECK(compare(actual, actual, &reference).ok);
    HostTensor wrong = actual.clone();
    for (int64_t i = 0; i < 64; ++i)
      wrong.set_double(i, 1.2 * values[static_cast<size_t>(i)]);
    for (const HostTensor &computed : {actual, wrong}) {
      const Agreement all = compare(computed, wrong, &reference);
      CHECK_FALSE(all.ok);
      CHECK(all.reason.find(start + "the relative error of the norm is 0.") == 0);
    }
    // One outlier: the norm of a large tensor hides it, the bound of an element does not.
    HostTensor large(dtype, {100000}), outlier(dtype, {100000}), exact(DType::f64, {100000});
    for (int64_t i = 0; i < 100000; ++i) {
      large.set_double(i, 1);
      outlier.set_double(i, i == 7 ? 2 : 1);
      exact.set_double(i, 1);
    }
    AgreementRule rule;
    rule.norm_bound = 0.02;
    const Agreement one = compare(large, outlier, &exact, rule);
    CHECK_FALSE(one.ok);
    CHECK(one.worst_index == 7);
    CHECK(one.reason == start + "the value at [7] is 2.0, its reference 1.0");
  }
}

TEST_CASE("infinities and NaN of expected values stand for those of their reference") {
  const HostTensor reference = tensor_of(DType::f64, {4}, {1, 70000, -kInf, kNan});
  const HostTensor eager = tensor_of(DType::f16, {4}, {1, kInf, -kInf, kNan});
  CHECK(compare(eager, eager, &reference).ok); // 70000 is too large for float16
  const std::string start = "the expected values and their reference disagree with each other: ";
  const auto reason = [&](const std::vector<double> &values) {
    const HostTensor expected = tensor_of(DType::f16, {4}, values);
    return compare(expected, expected, &reference).reason;
  };
  CHECK(reason({kNan, kInf, -kInf, kNan}) == start + "the value at [0] is nan, its reference 1.0");
  CHECK(reason({kInf, kInf, -kInf, kNan}) == start + "the value at [0] is inf, its reference 1.0");
  CHECK(reason({1, -kInf, -kInf, kNan}) ==
        start + "the value at [1] is -inf, its reference 70000.0");
  CHECK(reason({1, kInf, 3, kNan}) == start + "the value at [2] is 3.0, its reference -inf");
  CHECK(reason({1, kInf, -kInf, 3}) == start + "the value at [3] is 3.0, its reference nan");
}

TEST_CASE("numbers whose squares overflow or vanish are compared all the same") {
  for (const double scale : {1e200, 1e-200}) {
    const HostTensor e = tensor_of(DType::f64, {3}, {scale, 2 * scale, 3 * scale});
    CHECK(compare(e, e, nullptr).ok);
    HostTensor a = e.clone();
    a.set_double(0, 1.2 * scale);
    CHECK_FALSE(compare(a, e, nullptr).ok);
  }
  const HostTensor e = tensor_of(DType::f64, {2, 2}, {1e200, 1e200, 1, 1});
  CHECK_FALSE(compare(tensor_of(DType::f64, {2, 2}, {1e200, 1e200, 1, 2}), e, nullptr).ok);
}

TEST_CASE("empty tensors, scalars and zeros agree") {
  CHECK(compare(HostTensor(DType::f32, {0, 3}), HostTensor(DType::f32, {0, 3}), nullptr).ok);
  CHECK(compare(HostTensor(DType::f32, {3, 0}), HostTensor(DType::f32, {3, 0}), nullptr).ok);
  HostTensor zero = tensor_of(DType::f32, {}, {0});
  CHECK(compare(zero, zero, nullptr).ok);
  CHECK_FALSE(compare(tensor_of(DType::f32, {}, {1e-30}), zero, nullptr).ok);
}

TEST_CASE("complex tensors are compared as rows of their parts") {
  const HostTensor expected =
      as_complex(tensor_of(DType::f32, {2, 2, 2}, {1, -2, 3e-9, 4, 5, kNan, 7, kInf}));
  CHECK(expected.dtype() == DType::c64);
  CHECK(expected.sizes() == std::vector<int64_t>{2, 2});
  // A part near 0 is measured at its row's scale; NaN in either part is NaN.
  HostTensor near = as_complex(tensor_of(DType::f32, {2, 2, 2}, {1, -2, 0, 4, kNan, 1, 7, kInf}));
  CHECK(compare(near, expected, nullptr).ok);
  near = as_complex(tensor_of(DType::f32, {2, 2, 2}, {1, -2, 0, 4, 5, kNan, 7, 8}));
  CHECK(compare(near, expected, nullptr).reason == "the value at [1, 3] is 8.0, expected inf");
  const HostTensor wide = as_complex(tensor_of(DType::f64, {1, 2}, {1 + 1e-7, 2}));
  const HostTensor narrow = as_complex(tensor_of(DType::f32, {1, 2}, {1, 2}));
  CHECK(compare(narrow, narrow, &wide).ok);
  CHECK(as_real(expected).sizes() == std::vector<int64_t>{2, 2, 2});
  CHECK(as_real(expected).dtype() == DType::f32);
}
