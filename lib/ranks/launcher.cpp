#include "ranks/launcher.h"

#include "ranks/store.h"
#include "support/diagnostic.h"
#include "support/interruption.h"
#include "support/text.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace tsc::ranks {
namespace {

constexpr auto kLook = std::chrono::milliseconds(20);
constexpr auto kAfterTerm = std::chrono::seconds(3);

struct Child {
  pid_t pid = 0;
  support::Descriptor out, err;
  bool has_ended = false;
  LaunchedRank result;
  std::optional<support::KilledOnSignal> on_signal;
};

class Launch {
public:
  explicit Launch(const LaunchOptions &options)
      : options_(options), children_(static_cast<size_t>(options.ranks)) {
    StoreServer::Options server;
    server.world = options.ranks;
    server.describe_loss = [this](int64_t rank) { return end_of(rank); };
    server_.emplace(listen_on(0, true), server);
  }
  ~Launch() {
    for (Child &child : children_)
      if (child.pid != 0 && !child.has_ended) {
        kill(-child.pid, SIGKILL);
        waitpid(child.pid, nullptr, 0);
      }
  }
  Launch(const Launch &) = delete;
  Launch &operator=(const Launch &) = delete;

  std::vector<LaunchedRank> run() {
    for (int64_t rank = 0; rank < options_.ranks; ++rank)
      start(rank);
    while (step()) {
    }
    std::vector<LaunchedRank> results;
    for (Child &child : children_)
      results.push_back(std::move(child.result));
    return results;
  }

private:
  void start(int64_t rank);
  bool step();
  void read(Child &child, int64_t rank);
  void reap(Child &child, int64_t rank);
  void end_others();
  std::string end_of(int64_t rank);

  const LaunchOptions &options_;
  std::deque<Child> children_;
  std::mutex mutex_; // of has_ended and result, for the store's thread
  std::optional<StoreServer> server_;
  std::optional<Clock::time_point> failed_at_;
  bool has_sent_term_ = false;
};

std::vector<std::string> environment_of(int64_t rank, int64_t ranks, int port) {
  const std::vector<std::string> own = {
      "RANK=" + std::to_string(rank),           "WORLD_SIZE=" + std::to_string(ranks),
      "LOCAL_RANK=" + std::to_string(rank),     "MASTER_ADDR=127.0.0.1",
      "TSC_STORE_PORT=" + std::to_string(port), "TSC_LAUNCHED=" + std::to_string(getpid())};
  std::vector<std::string> all = own;
  for (char **at = environ; *at != nullptr; ++at) {
    const std::string name = std::string(*at).substr(0, std::strcspn(*at, "=") + 1);
    if (std::none_of(own.begin(), own.end(), [&](const std::string &variable) {
          return support::starts_with(variable, name);
        }))
      all.push_back(*at);
  }
  return all;
}

std::vector<char *> pointers_to(const std::vector<std::string> &texts) {
  std::vector<char *> pointers;
  for (const std::string &text : texts)
    pointers.push_back(const_cast<char *>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

void make_pipe(support::Descriptor &reader, support::Descriptor &writer) {
  int ends[2] = {-1, -1};
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw WireError{std::strerror(errno)};
  reader = support::Descriptor(ends[0]);
  writer = support::Descriptor(ends[1]);
  fcntl(ends[0], F_SETFL, O_NONBLOCK);
}

/// A child in a process group of its own; 0 and `error` if it cannot be started.
pid_t spawn(const std::vector<std::string> &arguments, const std::vector<std::string> &environment,
            const std::string &input, int out, int err, int &error) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 0, input.c_str(), O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out, 1);
  posix_spawn_file_actions_adddup2(&actions, err, 2);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setpgroup(&attributes, 0);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK);
  pid_t child = 0;
  error = posix_spawn(&child, arguments[0].c_str(), &actions, &attributes,
                      pointers_to(arguments).data(), pointers_to(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  return error == 0 ? child : 0;
}

void Launch::start(int64_t rank) {
  Child &child = children_[static_cast<size_t>(rank)];
  int error = 0;
  try {
    support::Descriptor out, err;
    make_pipe(child.out, out);
    make_pipe(child.err, err);
    const support::SignalsWait registered; // no child without its registration
    child.pid =
        spawn(options_.arguments(rank), environment_of(rank, options_.ranks, server_->port()),
              options_.input, out.get(), err.get(), error);
    if (child.pid != 0)
      child.on_signal.emplace(child.pid);
  } catch (const WireError &) {
    error = errno;
  }
  if (child.pid == 0)
    throw support::UserError(
        support::ExitCode::device,
        {.code = "TSC-R018",
         .message = "only " + std::to_string(rank) + " of " + std::to_string(options_.ranks) +
                    " ranks could be started: " + std::strerror(error),
         .next_step = "raise the limits on processes and memory, or run fewer ranks"});
}

/// False once all have ended.
bool Launch::step() {
  std::vector<pollfd> ready;
  for (const Child &child : children_)
    for (const support::Descriptor *pipe : {&child.out, &child.err})
      if (*pipe)
        ready.push_back({pipe->get(), POLLIN, 0});
  poll(ready.data(), ready.size(), kLook.count());
  bool is_any_left = false;
  for (int64_t rank = 0; rank < options_.ranks; ++rank) {
    Child &child = children_[static_cast<size_t>(rank)];
    if (child.has_ended)
      continue;
    read(child, rank);
    reap(child, rank);
    is_any_left |= !child.has_ended;
  }
  if (is_any_left)
    end_others();
  return is_any_left;
}

void Launch::read(Child &child, int64_t rank) {
  char buffer[65536];
  for (support::Descriptor *pipe : {&child.out, &child.err}) {
    std::string &text = pipe == &child.out ? child.result.out : child.result.err;
    ssize_t count = 0;
    while (*pipe && (count = ::read(pipe->get(), buffer, sizeof buffer)) > 0) {
      text.append(buffer, static_cast<size_t>(count));
      if (rank == 0 && pipe == &child.err)
        std::fwrite(buffer, 1, static_cast<size_t>(count), stderr);
    }
    if (count == 0 && *pipe)
      *pipe = support::Descriptor();
  }
}

void Launch::reap(Child &child, int64_t rank) {
  int status = 0;
  if (waitpid(child.pid, &status, WNOHANG) != child.pid)
    return;
  support::wait_if_ending(); // what was killed with this process is no news
  kill(-child.pid, SIGKILL); // what it left behind in its group
  read(child, rank);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    child.has_ended = true;
    child.on_signal.reset();
    child.result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    child.result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + child.result.signal;
  }
  if (child.result.exit_code != 0 && !failed_at_) {
    failed_at_ = Clock::now();
    // In case it never came to the store; what the store noticed itself was first.
    server_->fail({"TSC-R040",
                   "rank " + std::to_string(rank) + " ended without a word" + end_of(rank),
                   rank,
                   {}});
  }
}

/// Those that do not end by themselves once one has failed.
void Launch::end_others() {
  if (!failed_at_)
    return;
  const auto grace = std::chrono::duration<double>(options_.grace_seconds);
  const auto since = Clock::now() - *failed_at_;
  const bool kills = since > grace + kAfterTerm;
  if (since < grace || (has_sent_term_ && !kills))
    return;
  has_sent_term_ = true;
  for (Child &child : children_)
    if (!child.has_ended) {
      child.result.was_ended = true;
      kill(-child.pid, kills ? SIGKILL : SIGTERM);
    }
}

/// How a rank ended, which is known a little later than that it did.
std::string Launch::end_of(int64_t rank) {
  for (int i = 0; i < 50; ++i) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      const Child &child = children_[static_cast<size_t>(rank)];
      if (child.has_ended)
        return child.result.signal != 0
                   ? " (signal " + std::to_string(child.result.signal) + ": " +
                         strsignal(child.result.signal) + ")"
                   : " (exit code " + std::to_string(child.result.exit_code) + ")";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return "";
}

} // namespace

std::vector<LaunchedRank> launch(const LaunchOptions &options) { return Launch(options).run(); }

void end_with_launcher() {
  const char *parent = std::getenv("TSC_LAUNCHED");
  if (parent == nullptr)
    return;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (std::to_string(getppid()) != parent)
    raise(SIGTERM); // it is gone already
}

} // namespace tsc::ranks
