// Tensors of a file against the signature of a program, before anything runs.
#pragma once

#include "program/program.h"
#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::driver {

/// "float32[2, s0]".
std::string describe_tensor(tensor::DType dtype, const std::vector<symbolic::Expr> &sizes);
std::string describe_tensor(const tensor::HostTensor &tensor);

/// The program's inputs, in its order and contiguous, out of `file`: by their own names, or as
/// input_0, input_1, ... by position. Errors: UserError (bad_input) with every problem of all
/// inputs: TSC-R121 missing and unknown names, TSC-R111 another dtype, TSC-R112 another rank or
/// size, TSC-R114 a size out of its symbol's range. The last one lists all inputs, both sides.
std::vector<tensor::HostTensor> match_inputs(const program::Program &program,
                                             const tensor::TensorMap &file,
                                             const std::string &path);

/// A size that only the run shows.
inline constexpr int64_t kUnknownSize = -1;
/// Sizes of every output for inputs that fit; none of a constant.
std::vector<std::vector<int64_t>> output_sizes(const program::Program &program,
                                               const std::vector<tensor::HostTensor> &inputs);

} // namespace tsc::driver
