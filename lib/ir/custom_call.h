// A call of an operator that the user brought, with everything evaluated that its row gives as
// expressions: what code generation makes a kernel and a launch of.
#pragma once

#include "ir/ir.h"

#include <array>

namespace tsc::ir {

/// What a kernel is given in one place.
struct CustomArgument {
  enum class Kind : uint8_t {
    input,     // pointer to the first element of input `position` of the call
    absent,    // a null pointer: an optional tensor that was not given
    result,    // pointer to result `position`, contiguous
    workspace, // pointer to the workspace's first byte
    integer,   // `size`, over the symbols
    number,    // `number`
  } kind = Kind::input;
  size_t position = 0;
  Expr size = 0;
  double number = 0;
  std::string type; // integer, number: as C++ spells it, "int"
};
/// A function in a text of the user's, and how it is called.
struct CustomKernel {
  std::string file; // the text's name, for the messages of compilers
  std::string text;
  std::string function;
  std::vector<CustomArgument> arguments;
  /// Of the launch; a host function is called once, and has 1 everywhere.
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};
  std::array<int, 3> block = {1, 1, 1};
  Expr shared_bytes = 0; // dynamic
};
struct CustomCall {
  std::string name; // the operator's: "mylib.fused_rope.default"
  CustomKernel cuda;
  std::optional<CustomKernel> host; // without it the devices host and reference refuse
  size_t results = 0;
  bool has_workspace = false; // the last item of the tuple
};

} // namespace tsc::ir
