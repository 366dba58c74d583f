#include "tensor/dtype.h"

#include "support/diagnostic.h"

#include <array>
#include <cmath>
#include <cstring>
#include <limits>

namespace tsc::tensor {

namespace {

enum class Category : uint8_t { boolean, integral, floating, complex };

struct Row {
  DType dtype;
  std::string_view torch_name, short_name, safetensors_name;
  uint8_t bytes;
  Category category;
  bool is_signed;
  int8_t export_value; // schema.py's ScalarType; -1: none
};

// In the order of DType.
constexpr std::array<Row, 20> kRows = {{
    {DType::boolean, "torch.bool", "bool", "BOOL", 1, Category::boolean, false, 12},
    {DType::u8, "torch.uint8", "u8", "U8", 1, Category::integral, false, 1},
    {DType::i8, "torch.int8", "i8", "I8", 1, Category::integral, true, 2},
    {DType::i16, "torch.int16", "i16", "I16", 2, Category::integral, true, 3},
    {DType::i32, "torch.int32", "i32", "I32", 4, Category::integral, true, 4},
    {DType::i64, "torch.int64", "i64", "I64", 8, Category::integral, true, 5},
    {DType::u16, "torch.uint16", "u16", "U16", 2, Category::integral, false, 28},
    {DType::u32, "torch.uint32", "u32", "U32", 4, Category::integral, false, -1},
    {DType::u64, "torch.uint64", "u64", "U64", 8, Category::integral, false, -1},
    {DType::f16, "torch.float16", "f16", "F16", 2, Category::floating, true, 6},
    {DType::bf16, "torch.bfloat16", "bf16", "BF16", 2, Category::floating, true, 13},
    {DType::f32, "torch.float32", "f32", "F32", 4, Category::floating, true, 7},
    {DType::f64, "torch.float64", "f64", "F64", 8, Category::floating, true, 8},
    {DType::f8e4m3fn, "torch.float8_e4m3fn", "f8e4m3fn", "F8_E4M3", 1, Category::floating, true,
     29},
    {DType::f8e5m2, "torch.float8_e5m2", "f8e5m2", "F8_E5M2", 1, Category::floating, true, 30},
    {DType::f8e4m3fnuz, "torch.float8_e4m3fnuz", "f8e4m3fnuz", "F8_E4M3FNUZ", 1, Category::floating,
     true, 31},
    {DType::f8e5m2fnuz, "torch.float8_e5m2fnuz", "f8e5m2fnuz", "F8_E5M2FNUZ", 1, Category::floating,
     true, 32},
    {DType::f8e8m0fnu, "torch.float8_e8m0fnu", "f8e8m0fnu", "F8_E8M0", 1, Category::floating, false,
     -1},
    {DType::c64, "torch.complex64", "c64", "C64", 8, Category::complex, true, 10},
    {DType::c128, "torch.complex128", "c128", "C128", 16, Category::complex, true, 11},
}};

const Row &row(DType dtype) { return kRows[static_cast<size_t>(dtype)]; }

// uint16, uint32 and uint64 are "barebones" in PyTorch: they promote with floats only.
bool is_barebones_unsigned(DType dtype) {
  return dtype == DType::u16 || dtype == DType::u32 || dtype == DType::u64;
}

[[noreturn]] void throw_no_promotion(DType a, DType b) {
  support::Diagnostic diagnostic;
  diagnostic.code = "TSC-T001";
  diagnostic.message = "PyTorch defines no common dtype for " + std::string(torch_name(a)) +
                       " and " + std::string(torch_name(b));
  diagnostic.next_step = "convert one of them explicitly before the operation";
  throw support::UserError(support::ExitCode::unsupported, diagnostic);
}

DType promote_integers(DType a, DType b) {
  if (a == DType::boolean)
    return b;
  if (b == DType::boolean)
    return a;
  if (a == DType::u8 || b == DType::u8) {
    DType other = a == DType::u8 ? b : a;
    return other == DType::i8 ? DType::i16 : other;
  }
  return size_in_bytes(a) >= size_in_bytes(b) ? a : b;
}

DType promote_floats(DType a, DType b) {
  if (size_in_bytes(a) == size_in_bytes(b)) // float16 with bfloat16: neither holds the other
    return DType::f32;
  return size_in_bytes(a) > size_in_bytes(b) ? a : b;
}

uint32_t bits_of(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float float_of(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// What x86's conversion gives: the lowest value when `value` does not fit.
int64_t truncate_to_int64(double value) {
  if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0))
    return std::numeric_limits<int64_t>::min();
  return static_cast<int64_t>(value);
}

int64_t wrap_integer(int64_t value, DType dtype) {
  switch (dtype) {
  case DType::u8:
    return static_cast<uint8_t>(value);
  case DType::i8:
    return static_cast<int8_t>(value);
  case DType::i16:
    return static_cast<int16_t>(value);
  case DType::i32:
    return static_cast<int32_t>(value);
  case DType::u16:
    return static_cast<uint16_t>(value);
  case DType::u32:
    return static_cast<uint32_t>(value);
  default:
    return value;
  }
}

} // namespace

size_t size_in_bytes(DType dtype) { return row(dtype).bytes; }
std::string_view torch_name(DType dtype) { return row(dtype).torch_name; }
std::string_view short_name(DType dtype) { return row(dtype).short_name; }
std::string_view safetensors_name(DType dtype) { return row(dtype).safetensors_name; }

std::optional<DType> parse_dtype(std::string_view name) {
  constexpr std::string_view kPrefix = "torch.";
  if (name.substr(0, kPrefix.size()) == kPrefix)
    name.remove_prefix(kPrefix.size());
  for (const Row &r : kRows)
    if (name == r.short_name || name == r.torch_name.substr(kPrefix.size()))
      return r.dtype;
  // Names that PyTorch has twice, and Inductor's name for bool.
  if (name == "float")
    return DType::f32;
  if (name == "double")
    return DType::f64;
  if (name == "half")
    return DType::f16;
  if (name == "int")
    return DType::i32;
  if (name == "long")
    return DType::i64;
  if (name == "b8")
    return DType::boolean;
  return std::nullopt;
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (const Row &r : kRows)
    if (name == r.safetensors_name)
      return r.dtype;
  return std::nullopt;
}

std::optional<DType> dtype_from_export(int64_t value) {
  for (const Row &r : kRows)
    if (r.export_value >= 0 && value == r.export_value)
      return r.dtype;
  return std::nullopt;
}

bool is_floating(DType dtype) { return row(dtype).category == Category::floating; }
bool is_complex(DType dtype) { return row(dtype).category == Category::complex; }
bool is_integral(DType dtype, bool include_bool) {
  return row(dtype).category == Category::integral || (include_bool && dtype == DType::boolean);
}
bool is_signed(DType dtype) { return row(dtype).is_signed; }
bool is_float8(DType dtype) { return dtype >= DType::f8e4m3fn && dtype <= DType::f8e8m0fnu; }
bool is_reduced_float(DType dtype) {
  return dtype == DType::f16 || dtype == DType::bf16 || is_float8(dtype);
}

DType promote(DType a, DType b) {
  if (a == b)
    return a;
  if (is_float8(a) || is_float8(b))
    throw_no_promotion(a, b);
  if (is_barebones_unsigned(a) || is_barebones_unsigned(b)) {
    if (is_floating(a))
      return a;
    if (is_floating(b))
      return b;
    throw_no_promotion(a, b);
  }
  if (is_complex(a) || is_complex(b)) {
    bool wide = a == DType::c128 || b == DType::c128 || a == DType::f64 || b == DType::f64;
    return wide ? DType::c128 : DType::c64;
  }
  if (is_floating(a) && is_floating(b))
    return promote_floats(a, b);
  if (is_floating(a))
    return a;
  if (is_floating(b))
    return b;
  return promote_integers(a, b);
}

double to_double(const Scalar &scalar) {
  return std::visit([](auto value) { return static_cast<double>(value); }, scalar);
}

Scalar cast_scalar(const Scalar &scalar, DType dtype) {
  if (dtype == DType::boolean)
    return std::visit([](auto value) { return Scalar(value != 0); }, scalar);
  if (is_integral(dtype)) {
    int64_t value = std::holds_alternative<double>(scalar)
                        ? truncate_to_int64(std::get<double>(scalar))
                        : (std::holds_alternative<bool>(scalar) ? int64_t{std::get<bool>(scalar)}
                                                                : std::get<int64_t>(scalar));
    return wrap_integer(value, dtype);
  }
  return round_to_dtype(dtype, to_double(scalar));
}

double round_to_dtype(DType dtype, double value) {
  const auto narrow = static_cast<float>(value);
  if (is_float8(dtype))
    return double{f8_to_float(dtype, float_to_f8(dtype, narrow))};
  switch (dtype) {
  case DType::f16:
    return double{f16_to_float(float_to_f16(narrow))};
  case DType::bf16:
    return double{bf16_to_float(float_to_bf16(narrow))};
  case DType::f32:
    return double{narrow};
  default:
    return value;
  }
}

std::string to_string(const Device &device) {
  switch (device.type) {
  case DeviceType::cpu:
    return "cpu";
  case DeviceType::meta:
    return "meta";
  case DeviceType::cuda:
    break;
  }
  return "cuda:" + std::to_string(device.index);
}

uint16_t float_to_f16(float value) {
  uint32_t bits = bits_of(value);
  auto sign = static_cast<uint16_t>((bits >> 16) & 0x8000u);
  uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u)
    return static_cast<uint16_t>(sign | 0x7e00u); // NaN
  if (magnitude >= 0x477ff000u)                   // 65520 and above round to infinity
    return static_cast<uint16_t>(sign | 0x7c00u);
  if (magnitude < 0x38800000u) { // below 2^-14: subnormal. The sum rounds at 2^-24, to even.
    float rounded = float_of(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (bits_of(rounded) - bits_of(0.5f)));
  }
  uint32_t odd = (magnitude >> 13) & 1u;
  uint32_t rounded = magnitude - (112u << 23) + 0xfffu + odd; // rebias 127 to 15
  return static_cast<uint16_t>(sign | (rounded >> 13));
}

float f16_to_float(uint16_t bits) {
  uint32_t sign = (bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1fu;
  uint32_t mantissa = bits & 0x3ffu;
  if (exponent == 31)
    return float_of(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {
    float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
  }
  return float_of(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

uint16_t float_to_bf16(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return 0x7fc0u; // NaN
  uint32_t odd = (bits >> 16) & 1u;
  return static_cast<uint16_t>((bits + 0x7fffu + odd) >> 16);
}

float bf16_to_float(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

} // namespace tsc::tensor
