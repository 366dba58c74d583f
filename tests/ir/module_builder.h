// Builds small modules by hand.
#pragma once

#include "ir/body.h"
#include "ir/ir.h"

#include <string>
#include <vector>

namespace tsc::ir::testing {

inline std::vector<Expr> identity(size_t rank) {
  std::vector<Expr> index;
  for (size_t k = 0; k < rank; ++k)
    index.push_back(variable(k));
  return index;
}

struct ModuleBuilder {
  Module module;

  BufferId buffer(const std::string &name, DType dtype, std::vector<Expr> sizes) {
    Buffer result;
    result.name = name;
    result.dtype = dtype;
    result.layout = tensor::contiguous_layout(std::move(sizes));
    module.buffers.push_back(std::move(result));
    return static_cast<BufferId>(module.buffers.size() - 1);
  }

  LoopId node(Op op, DType dtype, std::vector<Expr> sizes, std::vector<Operand> operands) {
    LoopNode result;
    result.op = op;
    result.dtype = dtype;
    result.sizes = std::move(sizes);
    result.operands = std::move(operands);
    module.loops.push_back(std::move(result));
    return static_cast<LoopId>(module.loops.size() - 1);
  }

  LoopId load(BufferId buffer) {
    const LoopId id =
        node(Op::load, module.buffer(buffer).dtype, module.buffer(buffer).layout.sizes, {});
    module.loops[id].buffer = buffer;
    return id;
  }

  LoopId constant(const Scalar &value, DType dtype) {
    const LoopId id = node(Op::constant, dtype, {}, {});
    module.loops[id].constant = value;
    return id;
  }

  Operand at(LoopId node) const { return {node, identity(module.loops[node].sizes.size())}; }

  const Operation &operation(decltype(Operation::kind) kind, BufferId output) {
    Operation result;
    result.name = "op" + std::to_string(module.operations.size());
    result.kind = std::move(kind);
    result.outputs = {output};
    module.operations.push_back(std::move(result));
    return module.operations.back();
  }
};

} // namespace tsc::ir::testing
