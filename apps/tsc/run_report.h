// What `tsc run` prints.
#pragma once

#include "profile.h"

#include "driver/compile.h"
#include "driver/expected.h"
#include "runtime/session.h"
#include "tensor/host_tensor.h"

#include <cstdio>
#include <functional>
#include <string>
#include <vector>

namespace tsc::app {

struct RunReport {
  std::string graph, device;
  runtime::Timing timing;
  std::vector<driver::PassTime> passes;
  std::vector<driver::OutputAgreement> comparisons;
  std::vector<double> samples_ms; // --bench
  std::vector<Stage> stages;      // in order, up to the report itself
  Profile profile;                // --profile
};

/// Shape, dtype, min, max, mean and NaN count of each output.
/// `name_of`: how an output is called here.
std::string describe_outputs(const program::Program &program,
                             const std::vector<tensor::HostTensor> &outputs,
                             const std::function<std::string(const std::string &)> &name_of);
void print_report(const RunReport &report, bool json, std::FILE *stream);
/// Of the report what is of one rank alone.
void print_comparisons(const RunReport &report, std::FILE *stream);

} // namespace tsc::app
