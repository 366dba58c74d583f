// tsc run as several processes of this machine, one a rank.
#pragma once

#include <cstdint>
#include <string>

namespace tsc::app {

struct LaunchRequest {
  int64_t ranks = 1;
  std::string device, outputs;
  bool json = false;
  bool reads_input = false; // each rank reads what this process has as standard input
};
/// Starts this command once for each rank, and makes one report and one file of outputs of what
/// they leave. Returns the exit code: that of the first rank that failed. Errors: UserError
/// (device) TSC-R049 if there are fewer GPUs than ranks, TSC-R014, TSC-R018; ranks that a signal
/// ended are TSC-R050 on stderr.
int launch_ranks(const LaunchRequest &request);

/// Where a launched rank writes its outputs, "" where it is to write them itself.
std::string outputs_of_launched_rank(int64_t rank);

} // namespace tsc::app
