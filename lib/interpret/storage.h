// The memory behind buffers: elements in double precision or as 64-bit integers.
#pragma once

#include "tensor/host_tensor.h"

#include <vector>

namespace tsc::interpret {

using tensor::DType;

/// Elements of one storage, by position. Floating dtypes live in `floats`, the others (bool as 0 or
/// 1, u64 as its bits) in `integers`.
struct Storage {
  DType dtype = DType::f32;
  bool present = false; // false: no data was given; reading it is an error
  std::vector<double> floats;
  std::vector<int64_t> integers;

  bool is_float() const { return tensor::is_floating(dtype); }
  int64_t size() const {
    return static_cast<int64_t>(is_float() ? floats.size() : integers.size());
  }
  void allocate(DType type, int64_t count);
};

/// `value` as an element of floating `dtype` holds it.
double round_to(DType dtype, double value);
/// The low bits of `value` as an element of integral `dtype` holds it; bool: value != 0.
int64_t wrap_to(DType dtype, int64_t value);
/// PyTorch's cast of a float to integral `dtype`: truncation, then the low bits.
int64_t to_integer(DType dtype, double value);
/// An element of integral `dtype` as a double (u64 is unsigned).
double to_float(DType dtype, int64_t value);
/// The bits of an element of floating `dtype`, and back.
int64_t float_bits(DType dtype, double value);
double float_from_bits(DType dtype, int64_t bits);

/// Element `index` of a host tensor into and out of a storage position.
void read_element(Storage &storage, int64_t position, const tensor::HostTensor &from,
                  int64_t index);
void write_element(tensor::HostTensor &to, int64_t index, const Storage &storage, int64_t position);

} // namespace tsc::interpret
