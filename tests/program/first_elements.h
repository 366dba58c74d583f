// A program by hand whose data decides a size.
#pragma once

#include "sample_program.h"

namespace tsc::program {

/// y = x[:n], for x of s0 elements and a number n, which is s1 and at most `bound`; z = y twice.
inline Program taking_first(Expr bound) {
  using symbolic::SymbolSort;
  const Expr rows = symbolic::symbol(SymbolSort::size, 0),
             count = symbolic::symbol(SymbolSort::size, 1);
  Program program;
  program.name = "first";
  program.archs = {"host"};
  const auto add = [&](const char *name, Role role, std::vector<Expr> sizes) {
    Buffer buffer = make_buffer(name, role, sizes);
    buffer.dtype = DType::i64;
    buffer.bytes = symbolic::numel(sizes) * Expr(8);
    program.buffers.push_back(buffer);
  };
  add("x", Role::input, {rows});
  add("n", Role::input, {});
  add("first", Role::intermediate, {count});
  add("z", Role::output, {Expr(2), count});
  program.inputs = {{"x", 0, false, std::nullopt}, {"n", 1, false, std::nullopt}};
  program.symbols = {{rows, 0, 1024, ""}, {count, 0, INT64_MAX, "u0"}};
  program.outputs = {{"output_0", 3, program.buffers[3].layout, DType::i64, false, ""}};
  program.steps.push_back({Define{{1, 0}, count, bound}, "define"});
  program.steps.push_back({Copy{{0, 0}, {2, 0}, count * Expr(8)}, "take"});
  program.steps.push_back({Copy{{2, 0}, {3, 0}, count * Expr(8)}, "once"});
  program.steps.push_back({Copy{{2, 0}, {3, count}, count * Expr(8)}, "again"});
  program.size_assertions.push_back(
      {symbolic::minimum(1, symbolic::maximum(0, rows - count + Expr(1))),
       {"u0 <= s0", "check", ""}});
  return program;
}

} // namespace tsc::program
