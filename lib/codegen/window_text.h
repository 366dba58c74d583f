// The text of a WindowWalk: a thread takes a tile of short rows.
#pragma once

#include "codegen/plan.h"
#include "codegen/print_kernel.h"

#include <string>

namespace tsc::codegen {

/// What stands between the kernel's braces. `is_part`: see PartText. Precondition: the plan's walk
/// is a WindowWalk.
std::string print_windows(const ir::Module &module, const KernelPlan &plan,
                          const Parameters &parameters, const std::string &name, bool is_part);

} // namespace tsc::codegen
