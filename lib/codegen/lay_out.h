// Reductions whose operands lie in different orders, or whose rows one kernel goes through badly:
// other kernels where these are estimated to be faster.
#pragma once

#include "codegen/kernel_graph.h"
#include "target/target.h"

#include <string>

namespace tsc::codegen {

struct LaidOut {
  std::vector<KernelGraph> graphs; // in order
  std::string why;                 // one sentence: what is laid out, and estimates of both ways
};

/// A cheap test that fails for groups that reduce nothing, and for those whose accesses are all
/// contiguous along one loop and that store no large operands beside what they reduce.
bool may_lay_out(const ir::Module &module, const scheduler::Group &group,
                 const target::Target &target);

/// Kernels in the place of a group's one, or of `split` (split_rows), where some operands are
/// contiguous along another loop than the rest and that is estimated to take longer than
///
/// - pointwise kernels, in tiles, that store operands, or what is computed from them, in the order
///   of the others, and then the group's kernels, which read those; or
/// - the group's kernels with results in the order of the operands, and then pointwise kernels, in
///   tiles, that store these where they are wanted; or
/// - rows divided along the loop that some operands are contiguous along, a part an element, so
///   that both kinds are read by blocks of columns; or
/// - rows reduced in parts, as split_rows does it where rows are few, and elements stored by a
///   kernel of their own: of columns that a block reads twice, few bytes at a time.
///
/// Appends the buffers between the kernels to `module`. Sizes that are symbols are taken to be what
/// they are likely to be; nothing where that is not known.
std::optional<LaidOut> lay_out(ir::Module &module, const scheduler::Group &group,
                               const target::Target &target, const std::vector<KernelGraph> *split);

} // namespace tsc::codegen
