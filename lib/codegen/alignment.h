// Which sizes a launch has to check for a kernel's accesses to be vectors.
#pragma once

#include "codegen/access.h"
#include "codegen/kernel_graph.h"

namespace tsc::codegen {

/// A variable along which runs of neighbouring elements go, and the accesses that should be vectors
/// along it.
struct RunDirection {
  Expr variable, size;
  std::vector<ValueId> accesses;
};

/// The sizes that make more of the `directions`' accesses vectors of up to `of` elements if they
/// are multiples of `of`: few, each needed, found in the coefficients and moduli of indices. None
/// if nothing is gained, or if too many would have to be checked.
Divisibility sizes_to_check(const KernelGraph &graph, const std::vector<RunDirection> &directions,
                            int64_t of);

/// 0 where every size is a multiple: what a launch computes, and the kernel chooses its path by.
Expr remainder_of(const Divisibility &checked);

} // namespace tsc::codegen
