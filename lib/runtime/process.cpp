#include "runtime/process.h"

#include "support/diagnostic.h"
#include "support/interruption.h"
#include "support/text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>

extern char **environ;

namespace tsc::runtime {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kLook = std::chrono::milliseconds(20); // between two looks at a child that is silent

int milliseconds_until(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now());
  return static_cast<int>(std::clamp<int64_t>(left.count(), 0, 60'000));
}

/// This process's variables, with `changes` in place of those of the same name.
std::vector<std::string> changed_environment(const std::vector<std::string> &changes) {
  std::vector<std::string> variables;
  for (char **at = environ; *at != nullptr; ++at) {
    const std::string variable = *at;
    const std::string name = variable.substr(0, variable.find('=') + 1);
    const bool is_changed =
        std::any_of(changes.begin(), changes.end(),
                    [&](const std::string &change) { return support::starts_with(change, name); });
    if (!is_changed)
      variables.push_back(variable);
  }
  variables.insert(variables.end(), changes.begin(), changes.end());
  return variables;
}

std::vector<char *> pointers_to(const std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(const_cast<char *>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

/// Starts a child in a process group of its own, with signals as programs expect them; 0 and
/// `error` if that fails.
pid_t start(const std::vector<std::string> &arguments, const std::vector<std::string> &environment,
            int output, int &error) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output, 1);
  posix_spawn_file_actions_adddup2(&actions, output, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t defaults, none;
  sigemptyset(&none);
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE); // ignored by tsc, for which a closed pipe is an error like others
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  error = posix_spawn(&child, arguments[0].c_str(), &actions, &attributes,
                      pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : 0;
}

/// Reads what is there now; false at the end of the output.
bool read_some(int descriptor, ProcessResult &result, size_t most) {
  char buffer[4096];
  for (;;) {
    const ssize_t count = read(descriptor, buffer, sizeof buffer);
    if (count > 0)
      result.output.append(buffer, std::min(static_cast<size_t>(count),
                                            most - std::min(most, result.output.size())));
    else if (count == 0)
      return false;
    else if (errno != EINTR)
      return errno == EAGAIN;
    if (count == sizeof buffer)
      return true; // the time is looked at in between
  }
}

/// Waits for a child and its output, not longer than allowed. What it left running in its group is
/// not waited for.
int wait_for(pid_t child, int output, const ProcessOptions &options, ProcessResult &result) {
  const auto deadline = Clock::now() + options.limit;
  bool is_open = true, has_ended = false;
  while (!has_ended && Clock::now() < deadline) {
    if (is_open) {
      pollfd ready = {output, POLLIN, 0};
      poll(&ready, 1, std::min<int>(milliseconds_until(deadline), kLook.count()));
      is_open = read_some(output, result, options.most_output);
    } else { // it has closed its output, and ends soon
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    siginfo_t info = {};
    has_ended = waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
                info.si_pid == child;
  }
  result.timed_out = !has_ended;
  if (has_ended && is_open)
    read_some(output, result, options.most_output);
  kill(-child, SIGKILL); // what is left of the group, or all of it; its number is still taken
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

} // namespace

ProcessResult run_process(const std::vector<std::string> &arguments,
                          const ProcessOptions &options) {
  ProcessResult result;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    result.output = std::strerror(errno);
    return result;
  }
  const support::Descriptor output(ends[0]);
  fcntl(output.get(), F_SETFL, O_NONBLOCK);
  int error = 0;
  pid_t child = 0;
  std::optional<support::KilledOnSignal> on_signal;
  {
    const support::Descriptor input(ends[1]);
    const support::SignalsWait registered; // no child without its registration
    child = start(arguments, changed_environment(options.environment), input.get(), error);
    if (child != 0)
      on_signal.emplace(child);
  }
  if (child == 0) {
    result.output = std::strerror(error);
    return result;
  }
  const int status = wait_for(child, output.get(), options, result);
  support::wait_if_ending(); // what was killed with this process is no news
  if (WIFSIGNALED(status))
    result.signal = WTERMSIG(status);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + result.signal;
  return result;
}

std::string find_program(const std::string &name) {
  if (name.find('/') != std::string::npos)
    return access(name.c_str(), X_OK) == 0 ? name : "";
  const char *path = std::getenv("PATH");
  for (const std::string &folder : support::split(path ? path : "/usr/bin:/bin", ':')) {
    std::string candidate = (folder.empty() ? "." : folder) + "/" + name;
    if (access(candidate.c_str(), X_OK) == 0)
      return candidate;
  }
  return "";
}

TemporaryFolder::TemporaryFolder() {
  constexpr const char *kPrefix = "tsc-run-";
  const char *base = std::getenv("TMPDIR");
  const std::string parent = base && base[0] == '/' ? base : "/tmp";
  static std::once_flag once;
  std::call_once(once, [&] {
    std::error_code ignored;
    for (const support::AbandonedFolder &left : support::abandoned_folders(parent, kPrefix))
      std::filesystem::remove_all(left.path, ignored);
  });
  try {
    folder_.emplace(parent, kPrefix);
  } catch (const std::system_error &error) {
    throw support::UserError(support::ExitCode::device,
                             {.code = "TSC-R014",
                              .message = "no temporary folder can be made in '" + parent +
                                         "': " + error.code().message(),
                              .next_step = "set TMPDIR to a folder that can be written"});
  }
}

} // namespace tsc::runtime
