// 8-bit floats by what they mean: nearest of the 256 values, ties to even. The kernels' own
// conversions are in codegen/prelude/tc_floats.h.
#include "tensor/dtype.h"

#include "support/diagnostic.h"

#include <cmath>
#include <limits>

namespace tsc::tensor {
namespace {

/// e4m3fn: NaN is all ones, no infinity. e5m2: as IEEE's. fnuz: one zero, NaN in place of -0.
struct Format {
  int mantissa, bias;
  uint8_t largest; // finite
  uint8_t beyond;  // what is too large becomes
  uint8_t nan;
  bool one_zero;
};
Format format_of(DType dtype) {
  switch (dtype) {
  case DType::f8e4m3fn:
    return {3, 7, 0x7e, 0x7f, 0x7f, false};
  case DType::f8e5m2:
    return {2, 15, 0x7b, 0x7c, 0x7f, false};
  case DType::f8e4m3fnuz:
    return {3, 8, 0x7f, 0x80, 0x80, true};
  case DType::f8e5m2fnuz:
    return {2, 16, 0x7f, 0x80, 0x80, true};
  default:
    throw support::InternalError("tensor", "", "no float of 8 bits with a sign");
  }
}

/// Powers of two: the exponent of a float alone, the sign left out.
uint8_t float_to_e8m0(float value) {
  if (!std::isfinite(value))
    return 0xff;
  if (value == 0)
    return 0;
  int exponent = 0;
  const float part = std::frexp(std::fabs(value), &exponent); // [0.5, 1): 2^(exponent - 1) and more
  const int below = exponent - 1 + 127;
  if (below < 0) // subnormal: 2^-127 is the smallest
    return 0;
  if (below == 0) // a float's exponent of 0 has no bit of its own to round: all above go up
    return part > 0.5F ? 1 : 0;
  return static_cast<uint8_t>(below + (part >= 0.75F ? 1 : 0));
}

} // namespace

float f8_to_float(DType dtype, uint8_t bits) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::f8e8m0fnu)
    return bits == 0xff ? kNaN : std::ldexp(1.0F, bits - 127);
  const Format format = format_of(dtype);
  const int rest = bits & 0x7f, mantissa = rest & ((1 << format.mantissa) - 1),
            exponent = rest >> format.mantissa;
  if (format.one_zero ? bits == format.nan : rest > format.largest && rest != format.beyond)
    return kNaN;
  float magnitude = 0;
  if (rest > format.largest)
    magnitude = format.beyond == format.nan ? kNaN : std::numeric_limits<float>::infinity();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(mantissa), 1 - format.bias - format.mantissa);
  else
    magnitude = std::ldexp(static_cast<float>((1 << format.mantissa) + mantissa),
                           exponent - format.bias - format.mantissa);
  return (bits & 0x80) != 0 ? -magnitude : magnitude;
}

uint8_t float_to_f8(DType dtype, float value) {
  if (dtype == DType::f8e8m0fnu)
    return float_to_e8m0(value);
  const Format format = format_of(dtype);
  const int sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value))
    return static_cast<uint8_t>(sign | format.nan);
  int rest = value == 0 ? 0 : format.beyond;
  if (const float magnitude = std::fabs(value); value != 0 && std::isfinite(magnitude)) {
    int exponent = 0;
    std::frexp(magnitude, &exponent);
    // Steps of the last bit; below the smallest normal number they stay as wide as there.
    const int step =
        (exponent - 1 < 1 - format.bias ? 1 - format.bias : exponent - 1) - format.mantissa;
    const auto steps = static_cast<double>(std::ldexp(magnitude, -step)); // below 2^(mantissa + 1)
    if (step + format.mantissa + format.bias <= 0x7f)
      rest = static_cast<int>(std::nearbyint(steps)) +
             ((step + format.mantissa + format.bias - 1) << format.mantissa);
    if (rest > format.largest)
      rest = format.beyond;
  }
  return static_cast<uint8_t>(format.one_zero && rest == 0 ? 0 : sign | rest);
}

} // namespace tsc::tensor
