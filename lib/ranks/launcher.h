// Starts the ranks of a run as processes of this machine, and sees to it that none is left.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace tsc::ranks {

struct LaunchOptions {
  int64_t ranks = 1;
  /// The program and its arguments, by rank. RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR,
  /// MASTER_PORT and TSC_LAUNCHED are set for it.
  std::function<std::vector<std::string>(int64_t rank)> arguments;
  std::string input = "/dev/null"; // what each reads as standard input
  /// Of the others once one has failed: then they are ended.
  double grace_seconds = 10;
};
struct LaunchedRank {
  int exit_code = 0; // 128 + signal if a signal ended it
  int signal = 0;
  bool was_ended = false; // by the launcher, because another failed
  std::string out, err;   // what it wrote
};

/// Starts them, with a store that this process holds, and waits for all. What rank 0 writes to
/// stderr is passed on as it comes, too. The process groups of the ranks end with this process:
/// where a signal ends it, and where it is killed. Errors: UserError (device) TSC-R018 if not all
/// can be started.
std::vector<LaunchedRank> launch(const LaunchOptions &options);

/// Of a process that was launched: it is to end with who started it.
void end_with_launcher();

} // namespace tsc::ranks
