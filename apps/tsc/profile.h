// `tsc run --profile`: what happened when, step by step.
#pragma once

#include "driver/compile.h"
#include "runtime/session.h"

#include <nlohmann/json_fwd.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tsc::app {

/// Runs that are looked at.
inline constexpr int kProfiledRuns = 10;

/// A stretch of the command's own time.
struct Stage {
  const char *name;
  double milliseconds;
  double began_us; // of the steady clock
};

/// What is measured in a profile: a step of the program, or an operation of the reference.
struct ProfiledStep {
  std::string name;
  int stream = 0;
  std::string kind;   // "launch", "matmul", ...
  std::string kernel; // of a launch
  std::vector<std::string> nodes;
};
struct Profile {
  std::string file; // where the trace goes; "": nothing is profiled
  std::string device;
  std::vector<ProfiledStep> steps;                    // what spans count
  std::vector<std::vector<runtime::RunSpan>> by_rank; // one without collectives
  std::optional<int64_t> rank; // whose the one is, where each rank is a process
};

/// Of sorted numbers: the value below which `share` of them lie, linear between two neighbours (as
/// numpy.percentile). Precondition: there is one.
double quantile(const std::vector<double> &sorted, double share);

std::vector<ProfiledStep> profiled_steps(const program::Program &program);
/// The reference's.
std::vector<ProfiledStep> profiled_operations(const ir::Module &module);

/// A trace as Chrome and Perfetto open it: rows of the command (stages, passes, queueing) and, for
/// each rank, one row a stream.
std::string to_chrome_trace(const Profile &profile, const std::vector<Stage> &stages,
                            const std::vector<driver::PassTime> &passes);
/// Writes it. Throws UserError (usage) TSC-C070.
void write_trace(const Profile &profile, const std::vector<Stage> &stages,
                 const std::vector<driver::PassTime> &passes);

/// `runs`, `run_us` and `steps`, of rank 0: microseconds.
nlohmann::json to_json(const Profile &profile);
/// The same as a table of the steps that take longest.
std::string to_text(const Profile &profile);

} // namespace tsc::app
