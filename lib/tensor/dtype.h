// Element types, with PyTorch's names and rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace tsc::tensor {

enum class DType : uint8_t {
  boolean,
  u8,
  i8,
  i16,
  i32,
  i64,
  u16,
  u32,
  u64,
  f16,
  bf16,
  f32,
  f64,
  f8e4m3fn,
  f8e5m2,
  f8e4m3fnuz,
  f8e5m2fnuz,
  f8e8m0fnu, // powers of two, no zero and no sign
  c64,
  c128, // carried by readers; operators report them as unsupported
};

/// Bytes an element takes.
size_t size_in_bytes(DType dtype);
/// "torch.float32", as PyTorch prints it.
std::string_view torch_name(DType dtype);
/// "f32": tsc's short name.
std::string_view short_name(DType dtype);
/// Accepts "torch.float32", "float32", "f32"; nothing if unknown.
std::optional<DType> parse_dtype(std::string_view name);
/// safetensors' "F32", "BF16", "BOOL", ...
std::string_view safetensors_name(DType dtype);
std::optional<DType> parse_safetensors_dtype(std::string_view name);
/// torch.export schema's ScalarType numbering (schema.py: 7 = FLOAT, 13 = BFLOAT16, ...).
std::optional<DType> dtype_from_export(int64_t value);

bool is_floating(DType dtype);
bool is_complex(DType dtype);
bool is_integral(DType dtype, bool include_bool = false);
bool is_signed(DType dtype);
/// f16, bf16 and the 8-bit floats: computed in f32 (design: Numbers).
bool is_reduced_float(DType dtype);
bool is_float8(DType dtype);
/// c10::promoteTypes.
DType promote(DType a, DType b);

/// A Python number. bool < int < float in promotion.
using Scalar = std::variant<bool, int64_t, double>;
double to_double(const Scalar &scalar);
/// `scalar` as the value that an element of `dtype` holds (bool: != 0; ints: truncation).
Scalar cast_scalar(const Scalar &scalar, DType dtype);

enum class DeviceType : uint8_t { cpu, cuda, meta };
struct Device {
  DeviceType type = DeviceType::cuda;
  int index = 0;
  friend bool operator==(const Device &, const Device &) = default;
};
/// "cuda:0", "cpu".
std::string to_string(const Device &device);

// Conversions of single elements, bit-exact with PyTorch's (round to nearest even).
uint16_t float_to_f16(float value);
float f16_to_float(uint16_t bits);
uint16_t float_to_bf16(float value);
float bf16_to_float(uint16_t bits);
/// `dtype` is one of 8-bit floats. What is too large becomes NaN, but infinity of float8_e5m2.
uint8_t float_to_f8(DType dtype, float value);
float f8_to_float(DType dtype, uint8_t bits);
/// `value` as an element of `dtype` holds it: the nearest float, by way of f32 for narrower ones.
double round_to_dtype(DType dtype, double value);

} // namespace tsc::tensor
