// Several kernels as one: the blocks of one grid are dealt to them.
#pragma once

#include "codegen/build_kernel.h"

namespace tsc::codegen {

/// Which kernels one launch may hold: blocks of equal size, parameters that fit, a grid that fits.
/// Positions in `kernels`, each once, in order of the first.
std::vector<std::vector<size_t>> divide_into_launches(const std::vector<PlannedKernel> &kernels);

/// One kernel of two or more; they come from one of divide_into_launches' lists. Equal texts stand
/// once: blocks take the pointers of the kernel that they work for. Which blocks work for which is
/// written into the text where sizes are numbers, else computed at launch.
BuiltKernel join_kernels(const ir::Module &module, const std::vector<const PlannedKernel *> &parts);

} // namespace tsc::codegen
