// Kernels over parts of rows, in the place of one over whole rows.
#pragma once

#include "codegen/kernel_graph.h"

namespace tsc::codegen {

/// A reduction or a scan: what needs all of a row before others go on.
inline bool is_barrier(const Value &value) {
  return value.op == ir::Op::reduction || value.op == ir::Op::scan;
}

/// How a row is divided: its `outer` outermost element loops go from part to part, and the next one
/// in `parts` of `length`, the last of them what is left. Scans are divided along one loop.
struct Division {
  Expr parts = 1, length = 0;
  size_t outer = 0;
};

/// For each phase of `graph` whose walk reduces or scans: a kernel that reduces parts of rows, and
/// one that merges them; then one that computes the elements, if any are stored. Appends the
/// buffers between them to `module`. `elements`: the same values over loops in another form, as the
/// last kernel had better have them; `graph` if null.
std::vector<KernelGraph> graphs_of_parts(ir::Module &module, const KernelGraph &graph,
                                         const Division &division,
                                         const KernelGraph *elements = nullptr);

/// One kernel for all: a block a part, each of which looks back at those before it. `length`,
/// `threads`, `columns`: as LookBack has them. Appends what blocks tell each other to `module`.
KernelGraph look_back_graph(ir::Module &module, const KernelGraph &graph, Expr parts,
                            int64_t length, int threads, int columns = 0);

} // namespace tsc::codegen
