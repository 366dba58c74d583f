// Builds ir::Modules by hand: what lowering would make of small graphs.
#pragma once

#include "ir/ir.h"

#include <string>
#include <vector>

namespace tsc::test {

using ir::BufferId;
using ir::Expr;
using ir::LoopId;
using ir::Module;
using ir::Operand;

/// Every value is an elementwise node; buffers have one dtype, are on cuda:0 and contiguous.
class ModuleBuilder {
public:
  explicit ModuleBuilder(tensor::DType dtype = tensor::DType::f32) : dtype_(dtype) {}

  BufferId input(const std::string &name, std::vector<Expr> sizes);
  /// Node that reads `buffer` at `index` (one expression per dimension of the buffer) over loops
  /// `sizes`.
  LoopId load(BufferId buffer, std::vector<Expr> sizes, std::vector<Expr> index);
  /// The same at the loops' own variables.
  LoopId load(BufferId buffer);
  LoopId unary(ir::Op op, LoopId a);
  LoopId binary(ir::Op op, LoopId a, LoopId b);

  BufferId pointwise(LoopId value);
  /// Sum (or another kind) of `value` over its last dimension.
  BufferId reduce(LoopId value, ir::ReductionKind kind = ir::ReductionKind::sum);
  BufferId matmul(BufferId a, BufferId b, std::vector<Expr> sizes);
  /// Overwrites `target` with `value`.
  BufferId mutate(BufferId target, LoopId value);
  /// target[index[i]] += source[i], atomically; both read have one dimension.
  BufferId scatter_add(BufferId target, BufferId index, BufferId source);
  void output(BufferId buffer);

  Module module;

private:
  tensor::DType dtype_;
  BufferId add_buffer(std::vector<Expr> sizes);
  BufferId add_operation(std::vector<Expr> sizes, ir::Operation operation);
  std::vector<Expr> own_index(LoopId node) const;
};

} // namespace tsc::test
