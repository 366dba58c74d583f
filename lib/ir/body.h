// Traced loop bodies: the straight-line form of one operation, over loop variables z0, z1, ...
#pragma once

#include "ir/combine.h"
#include "ir/ir.h"

namespace tsc::ir {

struct BodyOp {
  Op op = Op::constant;
  DType dtype = DType::f32; // of the result (source dtype for store and reduction inputs: see args)
  /// Positions in LoopBody::ops. store: the value, then (if there is one) a condition under which
  /// it happens.
  std::vector<uint32_t> args;
  uint32_t index = kNone; // load, store, store_reduction, index_expr: position in LoopBody::indices
  BufferId buffer = kNone;         // load, store, store_reduction
  Scalar constant = 0.0;           // constant; masked: value elsewhere
  DType source_dtype = DType::f32; // to_dtype, to_dtype_bitcast, reduction
  ReductionKind reduction = ReductionKind::sum;
  ScanKind scan = ScanKind::sum;
  CombineFunction combine; // scan, of that kind
  StoreMode mode = StoreMode::plain;
  uint32_t item = 0;       // get_item
  bool descending = false; // sort
  /// masked: position in LoopBody::blocks of what is evaluated under the mask.
  uint32_t block = kNone;
  Expr symbol;            // set_indirect: the symbol ("indirect0") that indices may mention
  Expr extent;            // set_indirect: what the value is held to
  uint32_t check = kNone; // set_indirect: how (Module::checks)
  friend bool operator==(const BodyOp &, const BodyOp &) = default;
};

/// Ops in evaluation order. Block 0 is the body; others are run under a mask, their result is the
/// last op.
struct Block {
  std::vector<uint32_t> ops;
  friend bool operator==(const Block &, const Block &) = default;
};

struct LoopBody {
  std::vector<Expr> variables; // iteration variables, then reduction variables; one numbering
  std::vector<Expr> sizes;     // one a variable
  size_t iteration_count = 0;  // how many of them iterate; the rest reduce
  std::vector<Expr> indices;   // distinct, numbered by first use
  std::vector<BodyOp> ops;
  std::vector<Block> blocks;

  std::span<const Expr> iteration_sizes() const { return {sizes.data(), iteration_count}; }
  std::span<const Expr> reduction_sizes() const {
    return {sizes.data() + iteration_count, sizes.size() - iteration_count};
  }
  bool is_reduction() const { return iteration_count < sizes.size(); }
  /// Whether it has a result for each element of what it reduces, of all up to there.
  bool is_scan() const {
    for (const BodyOp &op : ops)
      if (op.op == Op::scan)
        return true;
    return false;
  }
  /// Ranges of all loop variables (indirect symbols: [0, extent)), over those of the module.
  symbolic::Ranges ranges(const Module &module) const;
};

/// Traces `operation` (loops only) into a body over symbols of `sort` in the operation's own loop
/// order, sizes of 1 dropped. Worklist walk, no recursion; memoized per (loop node, index, masked
/// region). Buffers' layouts must be frozen.
LoopBody trace(const Module &module, const Operation &operation,
               symbolic::SymbolSort sort = symbolic::SymbolSort::loop);

/// The body that evaluates one loop node over its own domain and stores nothing, indices not
/// simplified: for counting operations and reads while lowering decides what to realize.
LoopBody trace_value(const Module &module, LoopId node);

/// The body that evaluates `operand` at variable(k) in [0, sizes[k]); its result is `result`.
LoopBody trace_operand(const Module &module, const Operand &operand, std::span<const Expr> sizes,
                       uint32_t &result);

/// The same body over other loops: variable i is replaced by old_variables[i].
LoopBody reindex(const LoopBody &body, std::vector<Expr> variables, std::vector<Expr> sizes,
                 size_t iteration_count, std::span<const Expr> old_variables);

/// Seed 004's simplify_and_reorder: reorders iteration and reduction loops by the strides of the
/// accesses, then merges neighbours that every index lets merge.
LoopBody simplify_and_reorder(const Module &module, const LoopBody &body,
                              symbolic::SymbolSort sort = symbolic::SymbolSort::loop);
/// Its first half: the loops as lowered, reordered, none merged. Newer logs of the time before
/// fusion print these.
LoopBody reorder_loops(const Module &module, const LoopBody &body,
                       symbolic::SymbolSort sort = symbolic::SymbolSort::loop);

/// The log's text of the body (`class op0_loop_body:` and what follows), without a trailing
/// newline.
struct BodyTextOptions {
  bool newer_dialect = false; // PyTorch 2.11 instead of 2.5
};
std::string to_text(const Module &module, const LoopBody &body, std::string_view name,
                    const BodyTextOptions &options = {});

} // namespace tsc::ir
