// Tensors of a file against the signature of a program, before anything runs.
#pragma once

#include "graph/graph.h"
#include "program/program.h"
#include "tensor/host_tensor.h"

#include <map>
#include <string>
#include <vector>

namespace tsc::driver {

/// "float32[2, s0]".
std::string describe_tensor(tensor::DType dtype, const std::vector<symbolic::Expr> &sizes,
                            const std::vector<program::Symbol> &symbols = {});
std::string describe_tensor(const tensor::HostTensor &tensor);

/// Inputs that are no tensors, by name: the text of the value that the graph was exported with
/// ("3", "True", "0.5", "'sum'", "None").
using Constants = std::map<std::string, std::string>;
Constants constants_of(const graph::Graph &graph);

/// The program's inputs, in its order and contiguous, out of `file`: by their own names, or as
/// input_0, input_1, ... by position. Errors: UserError (bad_input) with every problem of all
/// inputs: TSC-R121 missing and unknown names, TSC-R111 another dtype, TSC-R112 another rank or
/// size, TSC-R114 a size out of its symbol's range, TSC-R115 another value of a constant (which may
/// be left out). The last one lists all inputs, both sides.
std::vector<tensor::HostTensor> match_inputs(const program::Program &program,
                                             const tensor::TensorMap &file, const std::string &path,
                                             const Constants &constants = {});

/// What the sizes of inputs are that are symbols (or expressions of them).
symbolic::Bindings input_sizes(const program::Program &program,
                               const std::vector<tensor::HostTensor> &inputs);

/// A size that only the run shows.
inline constexpr int64_t kUnknownSize = -1;
/// Sizes of every output for inputs that fit; none of a constant.
std::vector<std::vector<int64_t>> output_sizes(const program::Program &program,
                                               const std::vector<tensor::HostTensor> &inputs);

} // namespace tsc::driver
