// Decisions that the GPU's plans share.
#pragma once

#include "codegen/plan.h"

namespace tsc::codegen {

/// Loads of elements that may be issued first: no run-time index, no guard, a vector access.
std::vector<ValueId> preload_candidates(const KernelPlan &plan);
/// Issues all of them first.
void preload_all(KernelPlan &plan);
/// "16-byte accesses", for descriptions.
std::string access_text(const ir::Module &module, const KernelPlan &plan, int vector);

/// Plans a pointwise kernel with transposed operands; false, and nothing done, if there are none.
bool plan_tile(const ir::Module &module, const scheduler::Group &group, KernelPlan &plan);

} // namespace tsc::codegen
