// Other programs: the host's C++ compiler.
#pragma once

#include "support/private_folder.h"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace tsc::runtime {

struct ProcessOptions {
  /// After this it is ended, with all that it started.
  std::chrono::milliseconds limit = std::chrono::hours(24);
  /// Bytes of output that are kept; the rest is read and dropped.
  size_t most_output = 64 << 10;
  /// NAME=VALUE, beside or in place of what this process has.
  std::vector<std::string> environment;
};
struct ProcessResult {
  int exit_code = -1; // 128 + signal if a signal ended it, -1 if it could not be started
  int signal = 0;     // that ended it, if one did
  bool timed_out = false;
  std::string output; // stdout and stderr, in the order written
};
/// Runs a program (a path, not looked up) and waits for it. It is a process group of its own, which
/// ends with it, with its time, and with this process where a signal ends that.
ProcessResult run_process(const std::vector<std::string> &arguments,
                          const ProcessOptions &options = {});

/// Full path of an executable `name`: as it stands if it holds a slash, else found in PATH; "" if
/// there is none.
std::string find_program(const std::string &name);

/// A new folder under $TMPDIR (or /tmp), removed with everything in it by the destructor and by
/// signals that end the process. The first one removes those of processes that were killed.
/// Errors: UserError (device) TSC-R014.
class TemporaryFolder {
public:
  TemporaryFolder();
  const std::string &path() const { return folder_->path(); }

private:
  std::optional<support::PrivateFolder> folder_;
};

} // namespace tsc::runtime
