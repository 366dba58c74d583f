// Reductions whose operands lie in different orders: kernels that bring them together first.
#pragma once

#include "codegen/kernel_graph.h"
#include "target/target.h"

#include <string>

namespace tsc::codegen {

struct LaidOut {
  std::vector<KernelGraph> graphs; // in order
  std::string why;                 // one sentence: what is laid out, and estimates of both ways
};

/// A cheap test that fails for groups whose accesses are all contiguous along one loop, and for
/// those that reduce nothing.
bool may_lay_out(const ir::Module &module, const scheduler::Group &group,
                 const target::Target &target);

/// Kernels in the place of a group's one, or of `split` (split_rows), where some operands are
/// contiguous along another loop than the rest and that is estimated to take longer than
///
/// - pointwise kernels, in tiles, that store operands, or what is computed from them, in the order
///   of the others, and then the group's kernels, which read those; or
/// - rows divided along the loop that some operands are contiguous along, a part an element, so
///   that both kinds are read by blocks of columns.
///
/// Appends the buffers between the kernels to `module`. Sizes that are symbols are taken to be what
/// they are likely to be; nothing where that is not known.
std::optional<LaidOut> lay_out(ir::Module &module, const scheduler::Group &group,
                               const target::Target &target, const std::vector<KernelGraph> *split);

} // namespace tsc::codegen
