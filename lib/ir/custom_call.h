// A call of an operator that one kernel computes whole, which the user brought or which is a
// template of ours: everything is evaluated that its launch takes, and code generation makes a
// kernel and a launch of it.
#pragma once

#include "ir/ir.h"

#include <array>

namespace tsc::ir {

/// What a kernel is given in one place.
struct CustomArgument {
  enum class Kind : uint8_t {
    input,     // pointer to the first element of input `position` of the call
    absent,    // a null pointer: an optional tensor that was not given
    result,    // pointer to result `position`, dense, as its buffer is laid out
    workspace, // pointer to the workspace's first byte
    exchange,  // pointer to the kernel's own words (CustomCall::exchange)
    integer,   // `size`, over the symbols
    number,    // `number`
    map,       // pointer to what bulk copies are told of input `position` (program::TensorMap); GPU
  } kind = Kind::input;
  size_t position = 0;
  Expr size = 0;
  double number = 0;
  std::string type; // integer, number: as C++ spells it, "int"
  Layout boxes;     // map: sizes and strides from the outermost one on, as ir::boxes_of has them
  std::vector<int> box; // map: elements that one copy brings, innermost dimension first
};
/// `layout` as bulk copies need it: dimensions of one element have strides of a 16-byte word of
/// 16-bit elements. Nothing where strides are no whole words, or not known to be positive.
std::optional<Layout> boxes_of(Layout layout, const symbolic::Ranges &ranges);

/// A function in a text of the user's, or in a header of ours, and how it is called.
struct CustomKernel {
  std::string file; // the text's name, for the messages of compilers; the header
  std::string text; // of the user's; "" if `file` is a header of ours (codegen::prelude_files)
  std::string function;
  std::vector<CustomArgument> arguments;
  /// Of the launch; a host function is called once, and has 1 everywhere.
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};
  std::array<int, 3> block = {1, 1, 1};
  Expr shared_bytes = 0; // dynamic
  int blocks = 0;        // of a multiprocessor: registers are shared out among so many; 0: not said
  bool together = false; // as program::KernelVariant has it
  int cluster = 1;       // neighbouring blocks that are one (TC_CLUSTER)
};
struct CustomCall {
  std::string name; // the operator's: "mylib.fused_rope.default"
  CustomKernel cuda;
  std::optional<CustomKernel> host; // without it the devices host and reference refuse
  size_t results = 0;
  /// Of matrix units, floating point, for estimates; 0: memory is what it takes.
  Expr matrix_operations = 0;
  bool by_groups = false;     // those are wgmma's
  bool has_workspace = false; // the last item of the tuple
  BufferId exchange =
      kNone; // i64, of Buffer::Role::exchange: what blocks of a launch tell each other
};

} // namespace tsc::ir
