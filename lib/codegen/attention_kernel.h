// Attention as one kernel: the text around tc_attention.h, its parameters and its geometry.
#pragma once

#include "codegen/build_kernel.h"
#include "target/target.h"

namespace tsc::codegen {

/// `operation` is an ir::Extern of ir::Library::attention; its operands are rows of 16-byte words.
/// Where `target` has wgmma, groups of warps divide the work (tc_attention_groups.h).
BuiltKernel build_attention(const ir::Module &module, const scheduler::Schedule &schedule,
                            const scheduler::Group &group, const ir::Operation &operation,
                            const target::Target &target);

} // namespace tsc::codegen
