// What a run is held to: the outputs that a file recorded.
#pragma once

#include "program/program.h"
#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::driver {

struct OutputAgreement {
  std::string name;
  std::string path; // program::output_paths
  tensor::Agreement agreement;
};

/// Whether outputs of these sizes (one list an output) can be compared with `given`, the content
/// of the file `path`: so that this is known before anything runs. The float64 reference of
/// "output_N" is "reference_N", that of "mutated_NAME" is "reference_mutated_NAME", if the file has
/// it. A result may also be called by its path ("logits" and "reference_logits") where no output
/// has that name. Errors: UserError (bad_input) with every problem: TSC-R123 names that are missing
/// or no output's, TSC-R125 another dtype or shape.
void check_expected(const program::Program &program, const std::vector<std::vector<int64_t>> &sizes,
                    const tensor::TensorMap &given, const std::string &path);

/// Compares each output of `program`, mutated buffers and inputs included, with the tensor of its
/// name. Precondition: check_expected.
std::vector<OutputAgreement> compare_outputs(const program::Program &program,
                                             const std::vector<tensor::HostTensor> &outputs,
                                             const tensor::TensorMap &given);

/// Both, with a file. Errors: those of check_expected and of reading the file.
std::vector<OutputAgreement> compare_with_file(const program::Program &program,
                                               const std::vector<tensor::HostTensor> &outputs,
                                               const std::string &expect);

} // namespace tsc::driver
