// A product with the loops before and after it as one kernel: the text around tc_product.h, its
// parameters and its geometry.
#pragma once

#include "codegen/build_kernel.h"

namespace tsc::codegen {

/// `group` is of scheduler::NodeClass::templated. `tuning`: what to choose, or null.
BuiltKernel build_product(const ir::Module &module, const scheduler::Schedule &schedule,
                          const scheduler::Group &group, const target::Target &target,
                          const Tuning *tuning);

} // namespace tsc::codegen
