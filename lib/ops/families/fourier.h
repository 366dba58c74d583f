// Discrete Fourier transforms as decompositions share them.
#pragma once

#include "ops/table/builder.h"

namespace tsc::ops {

/// As ATen numbers them: what each dimension's transform is divided by, of its length.
enum class Scaling : uint8_t { none, by_root, by_length };

/// Over each of `dims` of a complex tensor; exp(-i..) if `forward`. Errors: TSC-O154 for a length
/// below 1, TSC-O150 for half precision; so below.
Argument fourier_of_complex(GraphBuilder &builder, const Call &call, Argument x,
                            const std::vector<size_t> &dims, Scaling scaling, bool forward);
/// Over each of `dims`, one or more, of a real tensor: complex, along the last of them all results
/// or the first n/2 + 1.
Argument fourier_of_real(GraphBuilder &builder, const Call &call, const Argument &x,
                         const std::vector<size_t> &dims, Scaling scaling, bool forward,
                         bool onesided);
/// The real signal of `size` elements that has the half spectrum `x` of size/2 + 1 elements or
/// more along `dim`; imaginary parts that no such spectrum has are ignored.
Argument fourier_to_real(GraphBuilder &builder, const Call &call, const Argument &x, size_t dim,
                         Expr size, Scaling scaling);

class Table;
/// The rows tsc.fourier*, which a library computes.
void add_fourier_calls(Table &table);

} // namespace tsc::ops
