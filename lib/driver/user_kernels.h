// Kernels that users brought, one call at a time: for the reference, which computes all else by
// itself.
#pragma once

#include "interpret/interpret.h"

namespace tsc::driver {

/// Compiles the call's host function and runs it. Throws UserError TSC-R030 for an operator that
/// has none, and what runtime::Session throws.
void run_user_kernel(interpret::UserKernelCall &call);

} // namespace tsc::driver
