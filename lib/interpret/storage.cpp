#include "interpret/storage.h"

#include "support/diagnostic.h"

#include <bit>
#include <cmath>
#include <string>

namespace tsc::interpret {

void Storage::allocate(DType type, int64_t count) {
  support::require(!tensor::is_complex(type), "interpret", "complex numbers are pairs of parts");
  dtype = type;
  present = true;
  if (is_float())
    floats.assign(static_cast<size_t>(count), 0.0);
  else
    integers.assign(static_cast<size_t>(count), 0);
}

double round_to(DType dtype, double value) { return tensor::round_to_dtype(dtype, value); }

int64_t wrap_to(DType dtype, int64_t value) {
  switch (dtype) {
  case DType::boolean:
    return value != 0 ? 1 : 0;
  case DType::u8:
    return static_cast<uint8_t>(value);
  case DType::i8:
    return static_cast<int8_t>(value);
  case DType::u16:
    return static_cast<uint16_t>(value);
  case DType::i16:
    return static_cast<int16_t>(value);
  case DType::u32:
    return static_cast<uint32_t>(value);
  case DType::i32:
    return static_cast<int32_t>(value);
  default:
    return value;
  }
}

int64_t to_integer(DType dtype, double value) {
  if (dtype == DType::boolean)
    return value != 0 ? 1 : 0; // NaN is true
  if (dtype == DType::u64 && value >= 9223372036854775808.0 && value < 18446744073709551616.0)
    return static_cast<int64_t>(static_cast<uint64_t>(value));
  // Out of range (or NaN): what x86 conversion gives, as PyTorch on the CPU does. Signed integers
  // of 32 bits and less are cut from 32 bits, others from 64.
  const bool is_narrow = dtype == DType::i8 || dtype == DType::i16 || dtype == DType::i32;
  if (is_narrow && !(value > -2147483649.0 && value < 2147483648.0))
    return wrap_to(dtype, INT32_MIN);
  if (!(value > -9223372036854775809.0 && value < 9223372036854775808.0))
    return wrap_to(dtype, INT64_MIN);
  return wrap_to(dtype, static_cast<int64_t>(value));
}

double to_float(DType dtype, int64_t value) {
  return dtype == DType::u64 ? static_cast<double>(static_cast<uint64_t>(value))
                             : static_cast<double>(value);
}

int64_t float_bits(DType dtype, double value) {
  if (tensor::is_float8(dtype))
    return tensor::float_to_f8(dtype, static_cast<float>(value));
  switch (dtype) {
  case DType::f16:
    return tensor::float_to_f16(static_cast<float>(value));
  case DType::bf16:
    return tensor::float_to_bf16(static_cast<float>(value));
  case DType::f32:
    return std::bit_cast<int32_t>(static_cast<float>(value));
  default:
    return std::bit_cast<int64_t>(value);
  }
}

double float_from_bits(DType dtype, int64_t bits) {
  if (tensor::is_float8(dtype))
    return tensor::f8_to_float(dtype, static_cast<uint8_t>(bits));
  switch (dtype) {
  case DType::f16:
    return tensor::f16_to_float(static_cast<uint16_t>(bits));
  case DType::bf16:
    return tensor::bf16_to_float(static_cast<uint16_t>(bits));
  case DType::f32:
    return std::bit_cast<float>(static_cast<int32_t>(bits));
  default:
    return std::bit_cast<double>(bits);
  }
}

void read_element(Storage &storage, int64_t position, const tensor::HostTensor &from,
                  int64_t index) {
  if (storage.is_float())
    storage.floats[static_cast<size_t>(position)] = from.get_double(index);
  else
    storage.integers[static_cast<size_t>(position)] = from.get_int64(index);
}

void write_element(tensor::HostTensor &to, int64_t index, const Storage &storage,
                   int64_t position) {
  if (storage.is_float())
    to.set_double(index, storage.floats[static_cast<size_t>(position)]);
  else
    to.set_int64(index, storage.integers[static_cast<size_t>(position)]);
}

} // namespace tsc::interpret
