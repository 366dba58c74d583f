// A small program that has one of everything: a symbol, a run-once step, a product, an in-place
// output, a mutated weight, a constant output and an output that is an input.
//
//   twice  = 2 * w            once
//   moved  = x + 1
//   y      = moved @ twice + bias
//   out    = relu(y)          in y's memory
//   count += 1                a weight that is mutated
#pragma once

#include "program/program.h"

namespace tsc::program {

inline Layout contiguous(std::vector<Expr> sizes) {
  Layout layout;
  layout.sizes = std::move(sizes);
  layout.strides.assign(layout.sizes.size(), Expr(1));
  for (size_t axis = layout.sizes.size(); axis-- > 1;)
    layout.strides[axis - 1] = layout.strides[axis] * layout.sizes[axis];
  return layout;
}

inline Buffer make_buffer(const std::string &name, Role role, std::vector<Expr> sizes,
                          DType dtype = DType::f32) {
  Buffer buffer;
  buffer.name = name;
  buffer.role = role;
  buffer.dtype = dtype;
  buffer.bytes = symbolic::numel(sizes) * Expr(dtype == DType::f32 ? 4 : 8);
  buffer.layout = contiguous(std::move(sizes));
  if (role == Role::weight)
    buffer.weight = "layer." + name;
  return buffer;
}

/// out[i] = expression of in[i], one thread an element; `statement` uses i, in0, out0.
inline Kernel make_kernel(const std::string &name, const std::string &ctype, DType dtype,
                          const std::string &statement) {
  Kernel kernel;
  kernel.name = name;
  kernel.parameters = {{KernelParameter::Kind::pointer, "in0", dtype, true},
                       {KernelParameter::Kind::pointer, "out0", dtype, false},
                       {KernelParameter::Kind::size, "n", DType::i64, true}};
  kernel.plan = "pointwise, one element a thread";
  std::string head = "// " + name + ": " + statement + "\n#include \"tsc_prelude.h\"\n";
  std::string signature = "TC_KERNEL void " + name + "(const " + ctype + " *TC_RESTRICT in0, " +
                          ctype + " *TC_RESTRICT out0, long long n) {\n";
  Expr blocks = symbolic::ceil_div(4 * symbolic::symbol(symbolic::SymbolSort::size, 0), 32);
  kernel.cuda.text = head + signature +
                     "  long long i = blockIdx.x * 32ll + threadIdx.x;\n  if (i < n)\n    " +
                     statement + "\n}\nTC_EXPORT(" + name + ", 0)\n";
  kernel.cuda.grid = {blocks, Expr(1), Expr(1)};
  kernel.cuda.block = {32, 1, 1};
  kernel.serial.text = head + signature + "  for (long long i = 0; i < n; ++i)\n    " + statement +
                       "\n}\nTC_EXPORT(" + name + ", 0)\n";
  kernel.origins = {name};
  return kernel;
}

inline Step make_launch(const std::string &name, uint32_t kernel, uint32_t from, uint32_t to,
                        Expr n) {
  Step step;
  step.name = name;
  step.kind = Launch{kernel, {{from, Expr(0)}, {to, Expr(0)}}, {n}};
  return step;
}

inline Program sample_program() {
  enum : uint32_t { x, w, bias, count, twice, moved, y, out };
  Program program;
  program.name = "sample";
  program.archs = {"sm_90"};
  Expr s0 = symbolic::symbol(symbolic::SymbolSort::size, 0);
  program.symbols = {{s0, 1, 1024}};
  program.buffers = {make_buffer("x", Role::input, {s0, Expr(4)}),
                     make_buffer("w", Role::weight, {Expr(4), Expr(3)}),
                     make_buffer("bias", Role::weight, {Expr(3)}),
                     make_buffer("count", Role::weight, {Expr(1)}, DType::i64),
                     make_buffer("twice", Role::intermediate, {Expr(4), Expr(3)}),
                     make_buffer("moved", Role::intermediate, {s0, Expr(4)}),
                     make_buffer("y", Role::intermediate, {s0, Expr(3)}),
                     make_buffer("out", Role::output, {s0, Expr(3)})};
  program.buffers[count].mutated = true;
  program.buffers[out].alias_of = y;
  program.kernels = {
      make_kernel("double_it", "float", DType::f32, "out0[i] = 2.0f * in0[i];"),
      make_kernel("add_one", "float", DType::f32, "out0[i] = in0[i] + 1.0f;"),
      make_kernel("relu", "float", DType::f32, "out0[i] = in0[i] > 0.0f ? in0[i] : 0.0f;"),
      make_kernel("count_up", "long long", DType::i64, "out0[i] = in0[i] + 1;")};
  program.kernels[0].cuda.grid = {Expr(1), Expr(1), Expr(1)};
  program.kernels[3].cuda.grid = {Expr(1), Expr(1), Expr(1)};
  program.kernels[2].parameters[0].is_const = false; // in place: both point at the same memory
  Step twice_step = make_launch("double_it", 0, w, twice, Expr(12));
  twice_step.once = true;
  Step product;
  product.name = "matmul";
  Matmul matmul;
  matmul.m = s0;
  matmul.n = 3;
  matmul.k = 4;
  matmul.a = {moved, Expr(0), Expr(4), Expr(1), Expr(0)};
  matmul.b = {twice, Expr(0), Expr(3), Expr(1), Expr(0)};
  matmul.out = {y, Expr(0), Expr(3), Expr(1), Expr(0)};
  matmul.c = MatrixOperand{bias, Expr(0), Expr(0), Expr(1), Expr(0)};
  matmul.beta = 1;
  product.kind = matmul;
  program.steps = {twice_step, make_launch("add_one", 1, x, moved, 4 * s0), product,
                   make_launch("relu", 2, y, out, 3 * s0),
                   make_launch("count_up", 3, count, count, Expr(1))};
  program.inputs = {{"x", x, false}};
  auto shown = [&](const char *name, uint32_t buffer, bool is_mutation) {
    return OutputInfo{
        name,        buffer, program.buffers[buffer].layout, program.buffers[buffer].dtype,
        is_mutation, ""};
  };
  program.outputs = {shown("output_0", out, false),
                     {"output_1", -1, {}, DType::f32, false, "None"},
                     shown("output_2", x, false),
                     shown("mutated_layer.count", count, true)};
  return program;
}

} // namespace tsc::program
