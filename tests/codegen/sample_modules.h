// Modules by hand: what lowering makes of small graphs.
#pragma once

#include "graph/graph.h"
#include "ir/ir.h"
#include "scheduler/schedule.h"

#include <string>
#include <vector>

namespace tsc::test {

using ir::BufferId;
using ir::Expr;
using ir::LoopId;
using tensor::DType;

class SampleModule {
public:
  BufferId input(const std::string &name, DType dtype, std::vector<Expr> sizes);
  LoopId load(BufferId buffer);
  /// Reads `buffer` at `index` over loops `sizes`.
  LoopId load_at(BufferId buffer, std::vector<Expr> sizes, std::vector<Expr> index);
  LoopId apply(ir::Op op, std::vector<LoopId> arguments);
  LoopId compare(ir::Op op, LoopId a, LoopId b);
  LoopId to(LoopId a, DType dtype);
  LoopId constant(double value, LoopId like);

  BufferId pointwise(LoopId value);
  /// Over the last dimension, which the result does not have.
  BufferId reduce(ir::ReductionKind kind, LoopId value, DType dtype, size_t item = 0);
  /// Over the first dimension.
  BufferId reduce_first(ir::ReductionKind kind, LoopId value, DType dtype);
  /// A row value, seen by every element of the last dimension of `like`.
  LoopId spread(BufferId buffer, LoopId like);
  void output(BufferId buffer);

  ir::Module module;
  scheduler::Schedule schedule() const;

private:
  LoopId add(ir::LoopNode node);
  BufferId add_buffer(DType dtype, std::vector<Expr> sizes);
  BufferId add_operation(DType dtype, std::vector<Expr> sizes, ir::Operation operation);
  std::vector<Expr> own_index(LoopId node) const;
};

SampleModule row_sum(int64_t rows, int64_t columns, DType dtype);
SampleModule add_sum(int64_t rows, int64_t columns);
SampleModule softmax(Expr rows, Expr columns, DType dtype);
/// gelu(layer_norm(a + b) * w + bias)
SampleModule layer_norm_gelu(int64_t rows, int64_t columns, DType dtype);
SampleModule column_sum(int64_t rows, int64_t columns, DType dtype);
/// relu(a + b[row] * c[column])
SampleModule broadcast_relu(Expr rows, Expr columns, DType dtype);

/// relu(pad(a) + a) of planes as strided convolutions leave them, (size - 1)//2 + 1 wide: what
/// their sizes are is the launch's to compute.
SampleModule convolved_relu(Expr planes, Expr height, Expr width);

/// `sample` with the ranges of the symbols in its sizes.
SampleModule with_symbols(SampleModule sample, const std::vector<graph::SymbolRange> &symbols);

/// relu(transpose(a) + b)
SampleModule transposed_add(Expr rows, Expr columns, DType dtype);

} // namespace tsc::test
