// Rows that no block sorts: three kernels for each digit of the keys, around tc_radix.h.
#pragma once

#include "codegen/build_kernel.h"

#include <array>

namespace tsc::codegen {

/// Memory between the kernels; kNone what they do without.
struct SortBuffers {
  BufferId table = ir::kNone; // how often each digit stands in each part of a row
  std::array<BufferId, 2> values = {ir::kNone, ir::kNone}, places = {ir::kNone, ir::kNone};
};

/// The operation of the group if it is an ir::Extern of ir::Library::sort; else null.
const ir::Operation *sort_of(const ir::Module &module, const scheduler::Schedule &schedule,
                             const scheduler::Group &group);

/// Appends the buffers to `module`. Values pass through the operation's own output where it has
/// one.
SortBuffers add_sort_buffers(ir::Module &module, const ir::Operation &operation);

/// What runs, in order; a kernel of several passes stands there several times.
std::vector<BuiltKernel> build_sort(const ir::Module &module, const scheduler::Schedule &schedule,
                                    const scheduler::Group &group, const ir::Operation &operation,
                                    const SortBuffers &buffers, const target::Target &target);

} // namespace tsc::codegen
