#include "engine/host_device.h"
#include "matmul_check.h"
#include "testing/catch.h"

#include <cmath>

namespace {

using namespace tsc_engine;
using matmul_check::bf16_value;
using matmul_check::f16_value;

} // namespace

TEST_CASE("products of every dtype, size and stride agree with the definition") {
  auto device = make_host_device({}, {});
  matmul_check::check_strides(*device);
  matmul_check::check_sizes(*device);
  matmul_check::check_added(*device);
  matmul_check::check_large(*device); // several blocks
}

TEST_CASE("c may be the output, and is not read when beta is 0") {
  auto device = make_host_device({}, {});
  MatmulShape shape;
  shape.batch = 1;
  shape.m = shape.n = shape.k = 2;
  shape.a = shape.b = shape.c = shape.out = {2, 1, 4};
  shape.has_c = true;
  shape.beta = 10;
  const float a[] = {1, 2, 3, 4}, b[] = {1, 0, 0, 1};
  float out[] = {1, 1, 1, 1};
  device->matmul(device->prepare_matmul(shape), a, b, out, out, nullptr, nullptr);
  CHECK(out[0] == 11.0f);
  CHECK(out[3] == 14.0f);
  shape.beta = 0;
  float garbage[] = {NAN, NAN, NAN, NAN};
  device->matmul(device->prepare_matmul(shape), a, b, garbage, garbage, nullptr, nullptr);
  CHECK(garbage[0] == 1.0f);
  CHECK(garbage[3] == 4.0f);
}

TEST_CASE("half types round once, to nearest even, and keep infinities and NaN") {
  auto device = make_host_device({}, {});
  MatmulShape shape;
  shape.batch = 1;
  shape.m = shape.n = shape.k = 1;
  shape.a = shape.b = shape.out = {1, 1, 1};
  const auto round = [&](DType dtype, double alpha, uint16_t one) {
    shape.dtype = dtype;
    shape.alpha = alpha;
    uint16_t out = 0;
    device->matmul(device->prepare_matmul(shape), &one, &one, nullptr, &out, nullptr, nullptr);
    return out;
  };
  const uint16_t f16_one = 0x3c00, bf16_one = 0x3f80;
  // Every f16 survives; halfway between two neighbours goes to the even one.
  for (uint32_t bits = 0; bits < 0x7c00; ++bits) {
    const double value = f16_value(static_cast<uint16_t>(bits));
    REQUIRE(round(DType::f16, value, f16_one) == bits);
    REQUIRE(round(DType::f16, -value, f16_one) == (bits ? (bits | 0x8000) : 0x8000));
    if (bits < 0x7bff) {
      const double next = f16_value(static_cast<uint16_t>(bits + 1));
      REQUIRE(round(DType::f16, (value + next) / 2, f16_one) == bits + (bits & 1));
    }
  }
  CHECK(round(DType::f16, 65519.0, f16_one) == 0x7bff);
  CHECK(round(DType::f16, 65520.0, f16_one) == 0x7c00);
  CHECK(round(DType::f16, 1e30, f16_one) == 0x7c00);
  CHECK((round(DType::f16, NAN, f16_one) & 0x7fff) > 0x7c00);
  for (uint32_t bits = 0x80; bits < 0x7f7f; bits += 7) {
    const double value = bf16_value(static_cast<uint16_t>(bits)),
                 next = bf16_value(static_cast<uint16_t>(bits + 1));
    REQUIRE(round(DType::bf16, value, bf16_one) == bits);
    REQUIRE(round(DType::bf16, (value + next) / 2, bf16_one) == bits + (bits & 1));
  }
  CHECK(round(DType::bf16, 3.4e38, bf16_one) == 0x7f80);
  CHECK((round(DType::bf16, NAN, bf16_one) & 0x7fff) > 0x7f80);
}

TEST_CASE("a product of booleans is refused") {
  auto device = make_host_device({}, {});
  MatmulShape shape;
  shape.dtype = DType::boolean;
  shape.batch = shape.m = shape.n = shape.k = 1;
  CHECK_THROWS_WITH(device->matmul(device->prepare_matmul(shape), nullptr, nullptr, nullptr,
                                   nullptr, nullptr, nullptr),
                    "a matrix product of booleans");
}
