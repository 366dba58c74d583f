// Routines of linear algebra over many small matrices, as a kernel instead of a library's call.
#pragma once

#include "ir/ir.h"
#include "target/target.h"

namespace tsc::lowering {

/// True where `call`, an ir::Library::solver, is a kernel's on `target`, and made one
/// (ir::Library::user_kernel, templates/matrices/tc_matrices.h): real matrices whose sizes are
/// known and at most 32, on a GPU, where a library would take as long for each of them.
bool solve_in_kernel(ir::Extern &call, const target::Target *target);

} // namespace tsc::lowering
