// One rank of a program that runs in several processes.
#pragma once

#include "driver/compile.h"
#include "driver/ranks.h"
#include "ranks/world.h"
#include "runtime/session.h"

namespace tsc::driver {

struct ProcessRank {
  std::string device; // reference, host, cuda
  ranks::GroupTable table;
  runtime::SessionOptions session; // of host and cuda
  uint64_t seed = 0;
  bool has_own_graph = false; // ranks agree in what they exchange alone
  RepeatedRuns repeated;
};
struct ProcessRun {
  std::vector<tensor::HostTensor> outputs;
  runtime::Timing timing;
  std::vector<double> samples_ms; // if `bench` is not 0
  /// If `profiled` is not 0: so many runs of a session, the one of the reference.
  std::vector<runtime::RunSpan> profile;
};

/// Meets the others, compares with them what each is about to run, runs, and says goodbye. All
/// ranks call it. Errors: UserError (bad_input) TSC-R043 naming what differs; World::throw_failure;
/// what the run itself may throw, of which the other ranks are told (TSC-R051).
ProcessRun run_process_rank(ranks::World &world, const Compilation &compilation,
                            const std::vector<tensor::HostTensor> &inputs,
                            const tensor::TensorMap &weights, const ProcessRank &how);

/// Calls `body`. What it throws is told to the other ranks, unless it is because of them.
void tell_others(ranks::World &world, const std::function<void()> &body);

} // namespace tsc::driver
