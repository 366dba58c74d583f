// Numbers among integers.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// The number that `parameter` is, cut off where `dtype` is integral: what ATen's kernels of
/// integers make of 2.5.
inline Argument number_of_dtype(const Call &call, std::string_view parameter, DType dtype) {
  const Argument &argument = call[parameter];
  const double *real = std::get_if<double>(&argument.value);
  return real && tensor::is_integral(dtype)
             ? Argument(std::get<int64_t>(tensor::cast_scalar(*real, DType::i64)))
             : argument;
}

} // namespace tsc::ops
