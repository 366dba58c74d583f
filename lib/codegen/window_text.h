// The text of a WindowWalk: a thread takes a tile of short rows.
#pragma once

#include "codegen/plan.h"
#include "codegen/print_kernel.h"

#include <string>

namespace tsc::codegen {

struct WindowsText {
  std::string types; // the structure NAME_shared, if threads share rows
  std::string text;  // what stands between the kernel's braces
};
/// `is_part`: see PartText; `path`: as WalkText has it. Precondition: the plan's walk is a
/// WindowWalk.
WindowsText print_windows(const ir::Module &module, const KernelPlan &plan,
                          const Parameters &parameters, const std::string &name,
                          const std::string &path, bool is_part);

} // namespace tsc::codegen
