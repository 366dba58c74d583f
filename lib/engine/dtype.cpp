#include "engine/device.h"

namespace tsc_engine {

size_t size_in_bytes(DType dtype) {
  switch (dtype) {
  case DType::boolean:
  case DType::u8:
  case DType::i8:
  case DType::f8e4m3fn:
  case DType::f8e5m2:
  case DType::f8e4m3fnuz:
  case DType::f8e5m2fnuz:
  case DType::f8e8m0fnu:
    return 1;
  case DType::i16:
  case DType::u16:
  case DType::f16:
  case DType::bf16:
    return 2;
  case DType::i32:
  case DType::u32:
  case DType::f32:
    return 4;
  case DType::i64:
  case DType::u64:
  case DType::f64:
    return 8;
  }
  return 0;
}

const char *name_of(DType dtype) {
  static const char *const kNames[] = {
      "bool", "u8",   "i8",  "i16", "i32",      "i64",    "u16",        "u32",        "u64",
      "f16",  "bf16", "f32", "f64", "f8e4m3fn", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu"};
  const auto position = static_cast<size_t>(dtype);
  return position < sizeof kNames / sizeof kNames[0] ? kNames[position] : "of another type";
}

DType wide_product(DType dtype) {
  switch (dtype) {
  case DType::f16:
  case DType::bf16:
  case DType::f8e4m3fn:
  case DType::f8e5m2:
    return DType::f32;
  case DType::i8:
    return DType::i32;
  default:
    return dtype;
  }
}

} // namespace tsc_engine
