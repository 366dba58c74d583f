// What `tsc run` prints.
#pragma once

#include "driver/compile.h"
#include "runtime/session.h"
#include "tensor/host_tensor.h"

#include <string>
#include <vector>

namespace tsc::app {

struct OutputReport {
  std::string name;
  bool compared = false;
  tensor::Agreement agreement;
};
struct RunReport {
  std::string graph, device;
  runtime::Timing timing;
  std::vector<driver::PassTime> passes;
  std::vector<OutputReport> comparisons;
  std::vector<double> samples_ms; // --bench
};

/// Compares outputs with those of `expect` by name ("reference_N" serves as the float64 reference
/// of "output_N"). Throws UserError TSC-R123 when a name is missing or superfluous.
std::vector<OutputReport> compare_outputs(const program::Program &program,
                                          const std::vector<tensor::HostTensor> &outputs,
                                          const std::string &expect);
/// Shape, dtype, min, max, mean and NaN count of each output.
void print_outputs(const program::Program &program, const std::vector<tensor::HostTensor> &outputs);
void print_report(const RunReport &report, bool json);

} // namespace tsc::app
