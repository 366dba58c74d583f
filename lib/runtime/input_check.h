// What can be said about inputs before any size is bound.
#pragma once

#include "engine/tables.h"
#include "program/program.h"
#include "tensor/host_tensor.h"

#include <vector>

namespace tsc::runtime {

/// Errors: UserError (bad_input) with every problem found: TSC-R110 another number of inputs,
/// TSC-R111 another dtype, TSC-R112 another rank, or another size where the program's is a number.
void check_inputs(const std::vector<program::InputInfo> &expected,
                  const std::vector<tensor::DType> &dtypes, const tsc_engine::Tables &tables,
                  const std::vector<tensor::HostTensor> &inputs);

} // namespace tsc::runtime
