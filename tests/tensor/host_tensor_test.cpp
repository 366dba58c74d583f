#include "support/diagnostic.h"
#include "tensor/host_tensor.h"
#include "testing/catch.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace tsc::tensor;

TEST_CASE("an allocated tensor is contiguous, aligned and writable") {
  HostTensor tensor(DType::f32, {2, 3});
  CHECK(tensor.numel() == 6);
  CHECK(tensor.size_in_bytes() == 24);
  CHECK(tensor.strides() == std::vector<int64_t>{3, 1});
  CHECK(reinterpret_cast<uintptr_t>(tensor.data()) % 64 == 0);
  CHECK(tensor.writable());
  CHECK(HostTensor(DType::f64, {}).numel() == 1);
  CHECK(HostTensor(DType::f64, {3, 0}).numel() == 0);
  CHECK_THROWS_WITH(HostTensor(DType::f32, {int64_t{1} << 62, 4}),
                    "internal error in HostTensor: a tensor of more than 2^63 bytes");
  CHECK_THROWS_WITH(HostTensor(DType::f32, {-1}),
                    "internal error in HostTensor: a size is negative");
}

TEST_CASE("elements of every dtype read back what was stored") {
  for (auto d = static_cast<int>(DType::boolean); d <= static_cast<int>(DType::f64); ++d) {
    HostTensor tensor(static_cast<DType>(d), {2});
    tensor.set_double(0, 1.0);
    tensor.set_int64(1, 0);
    CHECK(tensor.get_double(0) == 1.0);
    CHECK(tensor.get_int64(1) == 0);
  }
  HostTensor wide(DType::u64, {1});
  wide.set_double(0, 1e19);
  CHECK(wide.get_double(0) == 1e19);
  HostTensor small(DType::i8, {1});
  small.set_int64(0, 200);
  CHECK(small.get_int64(0) == -56);
}

TEST_CASE("8-bit floats are read and written") {
  HostTensor tensor(DType::f8e4m3fn, {4});
  const uint8_t bits[] = {0x38, 0x7e, 0x01, 0x7f};
  std::memcpy(tensor.data(), bits, sizeof bits);
  CHECK(tensor.get_double(0) == 1.0);
  CHECK(tensor.get_double(1) == 448.0);
  CHECK(tensor.get_double(2) == 0x1p-9);
  CHECK(std::isnan(tensor.get_double(3)));
  HostTensor pairs(DType::c64, {1});
  CHECK_THROWS_WITH(pairs.set_double(0, 1.0),
                    "error TSC-T003: stores of torch.complex64 are not supported\n"
                    "  next: convert the tensor to float32 before saving it");
  // Values of PyTorch 2.11: the nearest, ties to even, NaN (infinity) for what is too large.
  const auto bits_of = [](DType dtype, double value) {
    HostTensor one(dtype, {1});
    one.set_double(0, value);
    return static_cast<int>(std::to_integer<uint8_t>(*static_cast<std::byte *>(one.data())));
  };
  const double values[] = {
      0.0,   -0.0, 1.0,  448.0, 464.0, 465.0, INFINITY,         -INFINITY, 57344, 61439,
      61440, -1e9, 1e-3, 240.0, 248.0, 249.0, 0x1p-9 * 0.99999, 0x1p-10,   3e-5};
  struct Row {
    DType dtype;
    int bits[19];
  };
  const Row rows[] = {
      {DType::f8e4m3fn,
       {0, 128, 56, 126, 126, 127, 127, 255, 127, 127, 127, 255, 1, 119, 120, 120, 1, 0, 0}},
      {DType::f8e5m2,
       {0, 128, 60, 95, 95, 95, 124, 252, 123, 123, 124, 252, 20, 92, 92, 92, 24, 20, 2}},
      {DType::f8e4m3fnuz,
       {0, 0, 64, 128, 128, 128, 128, 128, 128, 128, 128, 128, 1, 127, 128, 128, 2, 1, 0}},
      {DType::f8e5m2fnuz,
       {0, 0, 64, 99, 99, 99, 128, 128, 127, 127, 128, 128, 24, 96, 96, 96, 28, 24, 4}},
      {DType::f8e8m0fnu,
       {0, 0, 127, 136, 136, 136, 255, 255, 143, 143, 143, 157, 117, 135, 135, 135, 118, 117,
        112}}};
  for (const Row &row : rows)
    for (size_t i = 0; i < 19; ++i) {
      INFO(torch_name(row.dtype) << " of " << values[i]);
      CHECK(bits_of(row.dtype, values[i]) == row.bits[i]);
    }
  for (const Row &row : rows) // each value is its own nearest
    for (int bits = 0; bits < 256; ++bits) {
      HostTensor one(row.dtype, {1});
      const auto byte = static_cast<uint8_t>(bits);
      std::memcpy(one.data(), &byte, 1);
      const double value = one.get_double(0);
      if (!std::isnan(value))
        CHECK(bits_of(row.dtype, value) == bits);
    }
}

TEST_CASE("a strided view reads in row-major order and clones densely") {
  HostTensor base(DType::i32, {2, 3});
  for (int64_t i = 0; i < 6; ++i)
    base.set_int64(i, i);
  auto owner = std::make_shared<HostTensor>(base);
  HostTensor view(DType::i32, {3, 2}, {1, 3}, owner, base.data(), false);
  CHECK_FALSE(view.is_contiguous());
  std::vector<int64_t> seen;
  for (int64_t i = 0; i < 6; ++i)
    seen.push_back(view.get_int64(i));
  CHECK(seen == std::vector<int64_t>{0, 3, 1, 4, 2, 5});
  HostTensor copy = view.contiguous();
  CHECK(copy.is_contiguous());
  CHECK(copy.writable());
  CHECK(copy.get_int64(1) == 3);
  CHECK(base.contiguous().data() == base.data());
  CHECK(base.clone().data() != base.data());
  CHECK_THROWS_WITH(view.set_int64(0, 1),
                    "internal error in HostTensor::set_int64: the tensor is read-only");
}

TEST_CASE("random tensors are the same bytes everywhere") {
  RandomSpec spec;
  spec.seed = 7;
  HostTensor a = random_tensor(DType::f32, {1000, 1000}, spec);
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < a.numel(); ++i) {
    sum += a.get_double(i);
    squares += a.get_double(i) * a.get_double(i);
  }
  CHECK(std::fabs(sum / 1e6) < 0.005);
  CHECK(std::fabs(squares / 1e6 - 1) < 0.01);
  // Recorded once; they must never change.
  CHECK(a.get_double(0) == -0x1.67970ap-1);
  CHECK(a.get_double(999999) == -0x1.b79dbcp-3);
  spec.seed = 8;
  CHECK(random_tensor(DType::f32, {1}, spec).get_double(0) != a.get_double(0));
}

TEST_CASE("random tensors keep to their bounds") {
  RandomSpec spec;
  spec.low = -3;
  spec.high = 2;
  HostTensor ints = random_tensor(DType::i64, {1000}, spec);
  int64_t low = 10, high = -10;
  for (int64_t i = 0; i < 1000; ++i) {
    low = std::min(low, ints.get_int64(i));
    high = std::max(high, ints.get_int64(i));
  }
  CHECK(low == -3);
  CHECK(high == 2);
  spec.positive = true;
  spec.scale = 2;
  HostTensor variances = random_tensor(DType::f64, {1000}, spec);
  for (int64_t i = 0; i < 1000; ++i)
    if (!(variances.get_double(i) >= 1.0 && variances.get_double(i) < 3.0))
      FAIL("out of bounds at " << i);
  spec.low = INT64_MIN;
  spec.high = INT64_MAX;
  CHECK_NOTHROW(random_tensor(DType::i64, {10}, spec));
}
