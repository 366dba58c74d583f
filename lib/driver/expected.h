// What a run is held to: the outputs that a file recorded.
#pragma once

#include "program/program.h"
#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::driver {

struct OutputAgreement {
  std::string name;
  tensor::Agreement agreement;
};

/// Compares each output of `program`, mutated buffers and inputs included, with the tensor of its
/// name in the file `expect`. The float64 reference of "output_N" is "reference_N", that of
/// "mutated_NAME" is "reference_mutated_NAME", if the file has it. Errors: UserError (bad_input)
/// TSC-R123 naming every output without expected values; those of reading the file.
std::vector<OutputAgreement> compare_with_file(const program::Program &program,
                                               const std::vector<tensor::HostTensor> &outputs,
                                               const std::string &expect);

} // namespace tsc::driver
