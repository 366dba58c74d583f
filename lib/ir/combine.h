// What a scan combines two tuples with: straight-line code that is data.
#pragma once

#include "ir/ir.h"

#include <memory>

namespace tsc::ir {

struct CombineOp {
  Op op = Op::constant; // of the table, constant or operand
  DType dtype = DType::f32;
  DType source_dtype = DType::f32; // to_dtype, to_dtype_bitcast
  Scalar constant = 0.0;           // constant: which; operand: which of both tuples' members
  std::vector<uint32_t> args;      // positions in Combine::ops
  friend bool operator==(const CombineOp &, const CombineOp &) = default;
};

/// Dtypes as in LoopNode: 16-bit floats are computed in f32. Operands 0 .. n - 1 are the members of
/// what comes before, n .. 2n - 1 those of what follows.
struct Combine {
  std::vector<DType> types; // of the n members
  std::vector<CombineOp> ops;
  std::vector<uint32_t> results; // positions in ops, one a member
  friend bool operator==(const Combine &, const Combine &) = default;
};

/// A combine function or none; scans with the same code are equal.
struct CombineFunction {
  std::shared_ptr<const Combine> code;
  explicit operator bool() const { return code != nullptr; }
  friend bool operator==(const CombineFunction &a, const CombineFunction &b) {
    return a.code == b.code || (a.code && b.code && *a.code == *b.code);
  }
};

} // namespace tsc::ir
