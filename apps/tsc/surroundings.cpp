#include "surroundings.h"

#include "progress.h"
#include "support/diagnostic.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <iostream>
#include <sys/resource.h>
#include <unistd.h>

namespace tsc::app {

void set_up_process() {
  for (const int standard : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(standard, F_GETFD) < 0 && errno == EBADF)
      // Results to a closed stdout fail as they would have; messages to a closed stderr are lost.
      (void)!open("/dev/null", standard == STDERR_FILENO ? O_WRONLY : O_RDONLY);
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGCHLD, SIG_DFL);
}

int finish_output(int code) {
  const bool is_flushed = std::fflush(stdout) == 0;
  int reason = is_flushed ? 0 : errno;
  std::cout.flush();
  if (is_flushed && !std::ferror(stdout) && std::cout.good())
    return code;
  // It failed earlier, and nobody has kept why: once more, at the end of results that are broken.
  if (reason == 0 && write(STDOUT_FILENO, "\n", 1) < 0)
    reason = errno;
  const support::Diagnostic diagnostic{
      "TSC-C017",
      std::string("the results cannot be written to stdout") +
          (reason != 0 ? std::string(": ") + std::strerror(reason) : ""),
      "",
      "",
      "",
      "",
      "make room there, or see what has closed the pipe"};
  std::fprintf(stderr, "%s\n", support::to_string(diagnostic).c_str());
  const bool is_result = code == static_cast<int>(support::ExitCode::ok) ||
                         code == static_cast<int>(support::ExitCode::numbers_differ);
  return is_result ? static_cast<int>(support::ExitCode::device) : code;
}

int report_out_of_memory() {
  std::fprintf(stderr, "error TSC-R001: out of memory");
  if (const char *step = Progress::last(); *step != '\0')
    std::fprintf(stderr, ", last step: %s", step);
  rlimit limit = {};
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY)
    std::fprintf(stderr, "\n  next: raise the limit of %llu KiB (ulimit -v)",
                 static_cast<unsigned long long>(limit.rlim_cur / 1024));
  std::fprintf(stderr, "\n");
  return static_cast<int>(support::ExitCode::device);
}

} // namespace tsc::app
