// Other programs: the host's C++ compiler.
#pragma once

#include <string>
#include <vector>

namespace tsc::runtime {

struct ProcessResult {
  int exit_code = -1; // 128 + signal if a signal ended it, -1 if it could not be started
  std::string output; // stdout and stderr, in the order written
};
/// Runs a program (a path, not looked up) and waits for it.
ProcessResult run_process(const std::vector<std::string> &arguments);

/// Full path of an executable `name`: as it stands if it holds a slash, else found in PATH; "" if
/// there is none.
std::string find_program(const std::string &name);

/// A new folder under $TMPDIR (or /tmp), removed with everything in it by the destructor.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder &operator=(const TemporaryFolder &) = delete;
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

} // namespace tsc::runtime
