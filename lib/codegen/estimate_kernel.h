// What a plan makes of the machine: the time that memory and arithmetic need at least, and what the
// plan's accesses, instructions and threads in flight take. A plan whose own times are far above
// the first two leaves the machine idle.
#pragma once

#include "codegen/plan.h"
#include "program/program.h"

namespace tsc::codegen {

/// Of a kernel over loops. `read`, `written`: bytes, each element once. Not known where sizes are
/// symbols, for sorts (their merges are the prelude's) and for products' prologues and epilogues.
/// Rates are the target's, latencies and instruction counts round numbers: right within a third,
/// which is enough to tell a cliff. `symbols`: where numbers stand for symbols, the graph with
/// these, by which it may divide; else null.
program::KernelEstimate estimate_kernel(const ir::Module &module, const KernelPlan &plan, Expr read,
                                        Expr written, const target::Target &target,
                                        const KernelGraph *symbols = nullptr);

/// Instructions of a thread for a value of one element, roughly: a vector access counts as one.
double instructions_of(const KernelGraph &graph, const Value &value);

/// Times that what a warp looks up in shared memory, anywhere, meets in a bank (2.3 were counted on
/// an H200, samples at random).
inline constexpr double kBanksMet = 2.5;

/// Adds a part of a launch: small parts run beside each other.
void add_part(program::KernelEstimate &launch, const program::KernelEstimate &part);

} // namespace tsc::codegen
