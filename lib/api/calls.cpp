#include "api/calls.h"

#include "support/diagnostic.h"
#include "support/interruption.h"

#include <atomic>
#include <chrono>
#include <pthread.h>
#include <thread>

namespace tsc::api {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kForkWaits = std::chrono::seconds(10);
constexpr auto kLook = std::chrono::microseconds(200);

std::atomic<int> at_work{0}; // calls
std::atomic<int> forks{0};   // under way
std::atomic<bool> is_torn{false};

// Of the thread.
thread_local int own_calls = 0;
thread_local bool is_forking = false, waited_in_vain = false;

void before_fork() {
  ++forks; // calls are counted first and look at this afterwards: none is missed
  is_forking = true;
  const auto deadline = Clock::now() + kForkWaits;
  while (at_work > own_calls && Clock::now() < deadline)
    std::this_thread::sleep_for(kLook);
  waited_in_vain = at_work > own_calls;
}

void after_fork_in_parent() {
  is_forking = false;
  --forks;
}

void after_fork_in_child() {
  is_forking = false;
  is_torn = is_torn || waited_in_vain;
  at_work = own_calls;
  forks = 0;
}

[[maybe_unused]] const int watches_forks =
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);

/// Behind everything else that a process does at its end: compilers that other threads still wait
/// for end with it, and their files go.
[[gnu::destructor]] void end_with_process() { support::remove_registered(); }

} // namespace

Call::Call() {
  while (++at_work, forks > 0 && !is_forking) {
    --at_work;
    while (forks > 0)
      std::this_thread::sleep_for(kLook);
  }
  ++own_calls;
  if (!is_torn)
    return;
  --own_calls;
  --at_work;
  throw support::UserError(
      support::ExitCode::device,
      {.code = "TSC-R019",
       .message = "this process was forked while another thread was compiling or running a program",
       .next_step = "fork when no thread does, or start processes anew (\"spawn\" or "
                    "\"forkserver\" in Python's multiprocessing)"});
}

Call::~Call() {
  --own_calls;
  --at_work;
}

} // namespace tsc::api
