// Which operators take complex numbers: docs/complex.md.
#pragma once

#include "ops/table/operator.h"

namespace tsc::ops {

using DTypeIs = bool (*)(DType);
/// The first dtype of that kind among the arguments: a tensor's, a number's, or one that is named.
std::optional<DType> dtype_among(const Call &call, DTypeIs is_wanted);
/// "add" of "aten.add_.Tensor", "prims.convert_element_type" of
/// "prims.convert_element_type.default"; of an operator that writes, what computes the new values.
std::string_view family_of(const Operator &row);

/// The dtype of a complex number's parts: f32 of c64, f64 of c128; others are their own.
DType part_dtype(DType dtype);
/// The complex dtype with parts of `dtype`: c128 of f64 and c128, else c64.
DType dtype_of_parts(DType dtype);

/// How a tensor lies in memory: complex numbers as their parts, in a last dimension of 2.
TensorMeta memory_of(TensorMeta meta);

/// Whether a tensor, a number or a dtype among the arguments is complex.
bool involves_complex(const Call &call);

/// Throws TSC-O150 if the call involves complex numbers and the row's rules hold for real ones
/// only. Every call is asked, those of decompositions included.
void check_complex(const Call &call, const Operator &row);

} // namespace tsc::ops
