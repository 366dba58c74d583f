// Meanings of the operations whose cost is "series" in ir/opcodes.def, with PyTorch's special
// values: NaN where its formulas give NaN, 0 for polynomials of a negative degree.
#pragma once

#include "ir/ir.h"

namespace tsc::interpret {

using ir::Op;
using tensor::DType;

using UnaryFunction = double (*)(double);
using BinaryFunction = double (*)(double, double);

/// Null for an operation that is not one of them. Of operands of `dtype`: what oscillates or grows
/// by recurrences is computed in its arithmetic (f32 for 16 bits), whose roundings decide.
UnaryFunction special_unary(Op op, DType dtype);
BinaryFunction special_binary(Op op, DType dtype);

/// J and Y of order 0 or 1, and Ai: PyTorch's, which are up to 2e-7 off.
double bessel_j(DType dtype, int order, double x);
double bessel_y(DType dtype, int order, double x);
double airy_ai(DType dtype, double x);

} // namespace tsc::interpret
