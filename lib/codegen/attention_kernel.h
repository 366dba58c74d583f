// Attention as one kernel: the text around tc_attention.h, its parameters and its geometry.
#pragma once

#include "codegen/build_kernel.h"

namespace tsc::codegen {

/// `operation` is an ir::Extern of ir::Library::attention; its operands are rows of 16-byte words.
BuiltKernel build_attention(const ir::Module &module, const scheduler::Schedule &schedule,
                            const scheduler::Group &group, const ir::Operation &operation);

} // namespace tsc::codegen
