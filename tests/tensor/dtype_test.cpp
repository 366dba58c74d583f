#include "support/diagnostic.h"
#include "tensor/dtype.h"
#include "testing/catch.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace tsc::tensor;

namespace {

std::vector<DType> all_dtypes() {
  std::vector<DType> dtypes;
  for (auto d = static_cast<int>(DType::boolean); d <= static_cast<int>(DType::c128); ++d)
    dtypes.push_back(static_cast<DType>(d));
  return dtypes;
}

bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

} // namespace

TEST_CASE("names of dtypes read back") {
  for (DType dtype : all_dtypes()) {
    CHECK(parse_dtype(torch_name(dtype)) == dtype);
    CHECK(parse_dtype(torch_name(dtype).substr(6)) == dtype);
    CHECK(parse_dtype(short_name(dtype)) == dtype);
    CHECK(parse_safetensors_dtype(safetensors_name(dtype)) == dtype);
  }
  CHECK(torch_name(DType::bf16) == "torch.bfloat16");
  CHECK(parse_dtype("float") == DType::f32);
  CHECK_FALSE(parse_dtype("flaot32").has_value());
  CHECK_FALSE(parse_dtype("torch.").has_value());
}

TEST_CASE("dtypes carry the numbers of torch.export's schema") {
  CHECK(dtype_from_export(7) == DType::f32);
  CHECK(dtype_from_export(12) == DType::boolean);
  CHECK(dtype_from_export(13) == DType::bf16);
  CHECK(dtype_from_export(28) == DType::u16);
  CHECK(dtype_from_export(5) == DType::i64);
  CHECK_FALSE(dtype_from_export(0).has_value());
  CHECK_FALSE(dtype_from_export(9).has_value()); // complex32
  CHECK_FALSE(dtype_from_export(-1).has_value());
}

TEST_CASE("promotion is PyTorch's") {
  CHECK(promote(DType::u8, DType::i8) == DType::i16);
  CHECK(promote(DType::u8, DType::i32) == DType::i32);
  CHECK(promote(DType::boolean, DType::u8) == DType::u8);
  CHECK(promote(DType::i64, DType::f16) == DType::f16);
  CHECK(promote(DType::f16, DType::bf16) == DType::f32);
  CHECK(promote(DType::bf16, DType::f32) == DType::f32);
  CHECK(promote(DType::f64, DType::c64) == DType::c128);
  CHECK(promote(DType::i64, DType::c64) == DType::c64);
  CHECK(promote(DType::u32, DType::f32) == DType::f32);
  for (DType a : all_dtypes())
    CHECK(promote(a, a) == a);
  CHECK_THROWS_WITH(
      promote(DType::u32, DType::i32),
      "error TSC-T001: PyTorch defines no common dtype for torch.uint32 and torch.int32\n"
      "  next: convert one of them explicitly before the operation");
  CHECK_THROWS_AS(promote(DType::f8e4m3fn, DType::f32), tsc::support::UserError);
}

TEST_CASE("every float16 survives the way through float32") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    auto half = static_cast<uint16_t>(bits);
    float value = f16_to_float(half);
    if (std::isnan(value))
      CHECK((float_to_f16(value) & 0x7fff) == 0x7e00);
    else if (float_to_f16(value) != half)
      FAIL("float16 " << bits);
    float brain = bf16_to_float(half);
    if (!std::isnan(brain) && float_to_bf16(brain) != half)
      FAIL("bfloat16 " << bits);
  }
}

TEST_CASE("conversions round to nearest, ties to even") {
  CHECK(float_to_f16(65519.0f) == 0x7bff);
  CHECK(float_to_f16(65520.0f) == 0x7c00);
  CHECK(float_to_f16(1.0f + 0x1p-11f) == 0x3c00);
  CHECK(float_to_f16(1.0f + 3 * 0x1p-11f) == 0x3c02);
  CHECK(float_to_f16(0x1p-25f) == 0);
  CHECK(float_to_f16(std::nextafter(0x1p-25f, 1.0f)) == 1);
  CHECK(float_to_f16(-0.0f) == 0x8000);
  CHECK(float_to_f16(0x1p-14f - 0x1p-26f) == 0x0400);
  CHECK(float_to_bf16(1.0f + 0x1p-8f) == 0x3f80);
  CHECK(float_to_bf16(1.0f + 3 * 0x1p-8f) == 0x3f82);
  CHECK(float_to_bf16(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(float_to_bf16(std::numeric_limits<float>::quiet_NaN()) == 0x7fc0);
  CHECK(same_bits(f16_to_float(0x8000), -0.0f));
}

TEST_CASE("scalars become what an element holds") {
  CHECK(std::get<bool>(cast_scalar(0.5, DType::boolean)));
  CHECK(std::get<bool>(cast_scalar(std::nan(""), DType::boolean)));
  CHECK(std::get<int64_t>(cast_scalar(-2.7, DType::i32)) == -2);
  CHECK(std::get<int64_t>(cast_scalar(int64_t{300}, DType::u8)) == 44);
  CHECK(std::get<int64_t>(cast_scalar(true, DType::i64)) == 1);
  CHECK(std::get<int64_t>(cast_scalar(1e30, DType::i64)) == INT64_MIN);
  CHECK(std::get<double>(cast_scalar(0.1, DType::f32)) == double{0.1f});
  CHECK(std::get<double>(cast_scalar(int64_t{2049}, DType::f16)) == 2048.0);
  CHECK(std::get<double>(cast_scalar(0.1, DType::f64)) == 0.1);
}

TEST_CASE("devices print as PyTorch's") {
  CHECK(to_string(Device{DeviceType::cuda, 1}) == "cuda:1");
  CHECK(to_string(Device{DeviceType::cpu, 0}) == "cpu");
  CHECK(to_string(Device{DeviceType::meta, 0}) == "meta");
}
