// Sizes that kernels take ready made instead of computing them in every thread.
#pragma once

#include "codegen/kernel_graph.h"

namespace tsc::codegen {

/// A size parameter that is no symbol of the program: its name in the kernel, and its value, which
/// the launch computes.
struct PrecomputedSize {
  Expr symbol, value;
};

/// Gives names (ps0, ps1, ...) to the costly parts of `graph` that depend on sizes alone:
/// divisions, extrema, sums of several terms, as strided convolutions and their products give them.
/// Entries of `sizes` are used again. Runs after plans are made: they look at what sizes are made
/// of.
void precompute_sizes(KernelGraph &graph, std::vector<PrecomputedSize> &sizes);

} // namespace tsc::codegen
