#include "isolation.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace tsc::differential {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kDone = "#done";
constexpr size_t kMostOfStderr = 2000;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kLimitsMemory = false; // its shadow takes terabytes of address space
#else
constexpr bool kLimitsMemory = true;
#endif

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = write(descriptor, text.data(), text.size());
    if (count > 0)
      text.remove_prefix(static_cast<size_t>(count));
    else if (errno != EINTR)
      std::_Exit(1); // the parent is gone
  }
}

/// The most telling part of what was written to stderr: from a sanitizer's verdict on, or the end.
std::string last_words(int descriptor) {
  std::string text(1 << 16, '\0');
  const off_t size = lseek(descriptor, 0, SEEK_END);
  const off_t from = std::max<off_t>(0, size - static_cast<off_t>(text.size()));
  const ssize_t count = pread(descriptor, text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  for (const char *mark : {"ERROR: AddressSanitizer", "runtime error:"})
    if (const size_t at = text.find(mark); at != std::string::npos)
      return text.substr(at, kMostOfStderr);
  return text.substr(text.size() - std::min(text.size(), kMostOfStderr));
}

} // namespace

struct Workers::Child {
  Job job;
  pid_t process = 0;
  int lines = -1, errors = -1;
  std::string partial;
  bool done = false;
  Clock::time_point last;
};

Workers::Workers(size_t parallel, const Limits &limits) : parallel_(parallel), limits_(limits) {}
Workers::~Workers() = default;

void Workers::start(Job job) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw std::runtime_error(std::string("no pipe: ") + std::strerror(errno));
  const int errors = memfd_create("stderr", MFD_CLOEXEC);
  std::fflush(nullptr);
  const pid_t process = fork();
  if (process < 0)
    throw std::runtime_error(std::string("no process: ") + std::strerror(errno));
  if (process == 0) {
    setpgid(0, 0); // with its compilers
    dup2(errors, 2);
    if (kLimitsMemory && limits_.memory_mib != 0) {
      const rlim_t bytes = static_cast<rlim_t>(limits_.memory_mib) << 20;
      const rlimit limit{bytes, bytes};
      setrlimit(RLIMIT_AS, &limit);
    }
    const rlimit no_core{0, 0};
    setrlimit(RLIMIT_CORE, &no_core);
    const auto send = [&](std::string_view line) {
      std::string text(line);
      text += '\n';
      write_all(ends[1], text);
    };
    try {
      job.body(send);
      send(kDone);
    } catch (const std::exception &error) {
      std::fprintf(stderr, "%s\n", error.what());
      std::_Exit(1);
    }
    std::_Exit(0); // no destructors: they are not what is tested, and threads may be left
  }
  setpgid(process, process);
  close(ends[1]);
  Child child;
  child.job = std::move(job);
  child.process = process;
  child.lines = ends[0];
  child.errors = errors;
  child.last = Clock::now();
  children_.push_back(std::move(child));
}

/// False at the end.
bool Workers::read_lines(Child &child) {
  char buffer[1 << 16];
  const ssize_t count = read(child.lines, buffer, sizeof buffer);
  if (count < 0)
    return errno == EINTR;
  if (count == 0)
    return false;
  child.last = Clock::now();
  child.partial.append(buffer, static_cast<size_t>(count));
  size_t begin = 0;
  for (size_t end; (end = child.partial.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line = std::string_view(child.partial).substr(begin, end - begin);
    if (line == kDone)
      child.done = true;
    else
      child.job.receive(line);
  }
  child.partial.erase(0, begin);
  return true;
}

void Workers::finish(Child &child, bool timed_out) {
  kill(-child.process, SIGKILL); // what it left behind too
  int status = 0;
  while (waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  Death death;
  death.timed_out = timed_out;
  if (timed_out)
    death.reason =
        "nothing for more than " + std::to_string(static_cast<int>(limits_.seconds)) + " s";
  else if (WIFSIGNALED(status))
    death.reason =
        "signal " + std::to_string(WTERMSIG(status)) + " (" + strsignal(WTERMSIG(status)) + ")";
  else
    death.reason = "exit code " + std::to_string(WEXITSTATUS(status));
  const std::string words = last_words(child.errors);
  if (!words.empty())
    death.reason += ": " + words;
  close(child.lines);
  close(child.errors);
  child.job.ended(child.done ? nullptr : &death);
}

void Workers::run() {
  std::reverse(waiting_.begin(), waiting_.end()); // taken from the end; what is added goes first
  while (!waiting_.empty() || !children_.empty()) {
    while (!waiting_.empty() && children_.size() < parallel_) {
      Job job = std::move(waiting_.back());
      waiting_.pop_back();
      start(std::move(job));
    }
    std::vector<pollfd> polled;
    for (const Child &child : children_)
      polled.push_back({child.lines, POLLIN, 0});
    poll(polled.data(), polled.size(), 500);
    std::vector<Child> left, ended;
    std::vector<bool> late;
    for (size_t i = 0; i < children_.size(); ++i) {
      Child &child = children_[i];
      const bool at_end = polled[i].revents != 0 && !read_lines(child);
      const double limit = limits_.seconds * (child.job.patience ? child.job.patience() : 1);
      const bool timed_out =
          !at_end && std::chrono::duration<double>(Clock::now() - child.last).count() > limit;
      if (at_end || timed_out || child.done) {
        ended.push_back(std::move(child));
        late.push_back(timed_out);
      } else {
        left.push_back(std::move(child));
      }
    }
    children_ = std::move(left);
    for (size_t i = 0; i < ended.size(); ++i)
      finish(ended[i], late[i]);
  }
}

} // namespace tsc::differential
