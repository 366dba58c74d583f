#include "api/calls.h"

#include "support/diagnostic.h"
#include "support/interruption.h"

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <pthread.h>
#include <thread>

namespace tsc::api {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kMostWait = std::chrono::seconds(10); // of forks, and of the process's end
constexpr auto kLook = std::chrono::microseconds(200);

std::atomic<int> at_work{0}; // calls
std::atomic<int> forks{0};   // under way
std::atomic<bool> is_torn{false}, is_ending{false};

// Of the thread.
thread_local int own_calls = 0;
thread_local bool is_forking = false, waited_in_vain = false;

/// Until no other thread's call is at work; false if it takes too long. Calls are counted first and
/// look afterwards whether they may be: once they may not, none is missed.
template <class Meanwhile> bool wait_for_calls(const Meanwhile &meanwhile) {
  const auto deadline = Clock::now() + kMostWait;
  while (at_work > own_calls && Clock::now() < deadline) {
    meanwhile();
    std::this_thread::sleep_for(kLook);
  }
  return at_work <= own_calls;
}

void before_fork() {
  ++forks;
  is_forking = true;
  waited_in_vain = !wait_for_calls([] {});
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

/// When the process exits: after what was registered later, static objects of a program that links
/// this library among it, and before libraries tear themselves down, as OpenBLAS does.
void end_calls(int, void *) {
  is_ending = true;
  wait_for_calls(support::remove_registered); // compilers, also those just started: calls fail
  support::remove_registered();
}
// As destructors do not run (no_destructors.cpp) and those of libraries would be too late.
[[maybe_unused]] const int watches_end = on_exit(end_calls, nullptr);

/// Throws if no call can be made in this process any more.
void check_process() {
  if (is_ending)
    throw support::UserError(
        support::ExitCode::device,
        support::Diagnostic{.code = "TSC-R019", .message = "this process is ending"});
  if (is_torn)
    throw support::UserError(
        support::ExitCode::device,
        {.code = "TSC-R019",
         .message =
             "this process was forked while another thread was compiling or running a program",
         .next_step = "fork when no thread does, or start processes anew (\"spawn\" or "
                      "\"forkserver\" in Python's multiprocessing)"});
}

} // namespace

Call::Call() {
  check_process(); // first: calls that fail again and again are no work that anybody waits for
  while (++at_work, forks > 0 && !is_forking) {
    --at_work;
    while (forks > 0)
      std::this_thread::sleep_for(kLook);
  }
  ++own_calls;
  if (is_torn || is_ending) { // meanwhile
    --own_calls;
    --at_work;
    check_process();
  }
}

Call::~Call() {
  --own_calls;
  --at_work;
}

} // namespace tsc::api
