// C++ text of types, literals and single operations.
#pragma once

#include "codegen/kernel_graph.h"

#include <span>
#include <string>

namespace tsc::codegen {

/// Type that memory holds: "tc_bf16", "float", "long long".
std::string_view storage_type(DType dtype);
/// Type that values have: 16-bit floats are "float".
std::string_view value_type(DType dtype);

/// `scalar` as a literal of value_type(dtype).
std::string literal(const tensor::Scalar &scalar, DType dtype);
/// `text` of type `from` as `to`, with torch's cast; the same text if the value types are one.
std::string converted(const std::string &text, DType from, DType to);

struct ArgumentText {
  std::string text; // a name or a literal
  DType dtype = DType::f32;
};
/// An elementwise operation (rows of ir/opcodes.def) applied to `arguments`.
std::string operation_text(const Value &value, std::span<const ArgumentText> arguments);

/// True if the value is its argument, unchanged in type and bits.
bool is_alias(const Value &value, const Value &argument);

/// Combiner of a reduction ("tc_sum"), type of its accumulator, and how its result reads.
std::string combiner(ir::ReductionKind kind);
std::string combiner(ir::ScanKind kind);
std::string accumulator_type(const Value &reduction);
/// `accumulator` with one element more, which stands at `position` of its row, behind all that were
/// there; or, of several inputs, with a part's result.
std::string accumulated(const Value &reduction, const std::string &accumulator,
                        std::span<const ArgumentText> inputs, const std::string &position);
bool is_tuple(ir::ReductionKind kind);
/// Member of a tuple-valued result that holds item `item`.
std::string_view item_name(ir::ReductionKind kind, uint32_t item);

} // namespace tsc::codegen
