// Discrete Fourier transforms as decompositions share them.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// As ATen numbers them: what each dimension's transform is divided by, of its length.
enum class Scaling : uint8_t { none, by_root, by_length };

/// Over each of `dims` of a complex tensor; exp(-i..) if `forward`. Errors: TSC-O153 for a length
/// that is no number, TSC-O154 for one below 1, TSC-O150 for half precision; so below.
Argument fourier_of_complex(GraphBuilder &builder, const Call &call, Argument x,
                            const std::vector<size_t> &dims, Scaling scaling, bool forward);
/// Over one dimension of a real tensor: complex, all results or the first n/2 + 1.
Argument fourier_of_real(GraphBuilder &builder, const Call &call, const Argument &x, size_t dim,
                         Scaling scaling, bool forward, bool onesided);
/// The real signal of `size` elements that has the half spectrum `x` of size/2 + 1 elements or
/// more along `dim`; imaginary parts that no such spectrum has are ignored.
Argument fourier_to_real(GraphBuilder &builder, const Call &call, const Argument &x, size_t dim,
                         Expr size, Scaling scaling);

} // namespace tsc::ops
