// Several kernels as one: the blocks of one grid are dealt to them.
#pragma once

#include "codegen/build_kernel.h"

namespace tsc::codegen {

/// Which kernels one launch may hold: blocks of equal size, parameters that fit, a grid that fits.
/// Positions in `kernels`, each once, in order of the first. `beside`: a kernel whose threads do
/// not wait for each other may have smaller blocks, several of which one of the launch then works
/// for.
std::vector<std::vector<size_t>> divide_into_launches(const std::vector<PlannedKernel> &kernels,
                                                      bool beside = false);

/// One kernel of two or more; they come from one of divide_into_launches' lists. Equal texts stand
/// once: blocks take the pointers of the kernel that they work for. Which blocks work for which is
/// written into the text where sizes are numbers, else computed at launch. `read_together`: bytes
/// that several of them read; on a GPU, each then gets its blocks in turn with the others, in
/// proportion, if sizes are numbers.
BuiltKernel join_kernels(const ir::Module &module, const std::vector<const PlannedKernel *> &parts,
                         int64_t read_together = 0);

} // namespace tsc::codegen
