// What follows from all steps of a program together: its symbols, which steps run once, whose
// memory is taken over, and what runs beside what.
#pragma once

#include "ir/ir.h"
#include "program/program.h"

namespace tsc::codegen {

/// Before: buffers, kernels, steps and signature are there. `inplace`: (output, input), the output
/// may take over the input's memory. Errors: TSC-K004 for a symbol that no input says.
void finish_program(const ir::Module &module,
                    const std::vector<std::pair<uint32_t, uint32_t>> &inplace,
                    program::Program &program);

} // namespace tsc::codegen
