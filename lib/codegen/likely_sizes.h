// Numbers in the place of symbols: what plans take at the sizes that are likely, and kernels of
// these sizes alone beside those that serve any.
#pragma once

#include "codegen/build_kernel.h"
#include "codegen/plan.h"

#include <utility>
#include <vector>

namespace tsc::codegen {

/// Symbols of sizes, each once, with the numbers that stand for them.
using Sizes = std::vector<std::pair<Expr, int64_t>>;

/// 1 where symbols are these numbers, else 0.
Expr are(const Sizes &sizes);

/// What the kernel takes where its symbols are what the graph says is likely
/// (graph::SymbolRange::hint): of the path that the launch then chooses. Not known as in
/// estimate_kernel, and where a symbol has no likely value.
program::KernelEstimate estimate_likely(const ir::Module &module, const KernelPlan &plan, Expr read,
                                        Expr written, const target::Target &target);

/// A group's kernels in order. `given`: graphs in the place of its own (split_rows, lay_out), or
/// null; `why`: of lay_out, or "".
std::vector<BuiltKernel> build_kernels(const ir::Module &module,
                                       const scheduler::Schedule &schedule,
                                       const scheduler::Group &group, const target::Target &target,
                                       const std::vector<KernelGraph> *given,
                                       const std::string &why, Tuning *tuning);

/// Graphs in the place of a group's one.
struct InParts {
  std::vector<KernelGraph> graphs;
  std::string why; // as of lay_out
};
/// Nothing: one kernel does what the group does. Appends buffers to `module`.
std::optional<InParts> divide(ir::Module &module, const scheduler::Group &group,
                              const target::Target &target);

/// A cheap test that fails for most groups that `divide` leaves alone.
bool may_divide(const ir::Module &module, const scheduler::Group &group,
                const target::Target &target);

/// The kernels of a group whose sizes are symbols: those that serve any sizes, and behind them
/// kernels for likely sizes alone, if those are estimated to take much less time at these sizes. A
/// launch finds which sizes it has; the others' grids are 0. Sizes of which the fast kernels need
/// no number stay symbols in them. `parts`: what `divide` gave for the group, or null. Those of any
/// sizes alone, too, where a symbol has no likely value. Appends buffers to `module`.
std::vector<BuiltKernel> build_by_sizes(ir::Module &module, const scheduler::Schedule &schedule,
                                        const scheduler::Group &group, const target::Target &target,
                                        const InParts *parts, Tuning *tuning);

/// A cheap test that fails for groups of numbers alone, and for others that build_by_sizes leaves.
bool may_build_by_sizes(const ir::Module &module, const scheduler::Group &group,
                        const target::Target &target);

} // namespace tsc::codegen
