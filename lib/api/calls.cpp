#include "api/calls.h"

#include "support/diagnostic.h"
#include "support/interruption.h"
#include "support/opened_libraries.h"

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
thread_local int preparations = 0; // for the fork under way: as many as the handlers are registered
thread_local bool waited_in_vain = false;

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
  if (preparations++ > 0)
    return;
  ++forks;
  waited_in_vain = !wait_for_calls([] {});
}

void after_fork_in_parent() {
  if (--preparations == 0)
    --forks;
}

void after_fork_in_child() {
  preparations = 0;
  is_torn = is_torn || waited_in_vain;
  at_work = own_calls;
  forks = 0;
}

/// When the process exits: after what was registered later, static objects that were made after the
/// first call among it, and before libraries tear themselves down, as OpenBLAS does. Once more
/// after that does nothing.
void end_calls(int, void *) {
  is_ending = true;
  wait_for_calls(support::remove_registered); // compilers, also those just started: calls fail
  support::remove_registered();
}

void watch_forks() { pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child); }

[[maybe_unused]] const bool watches_from_the_start = (watch_forks(), true);

/// Handlers run last registered first: those of a library that was opened just now, which end
/// OpenBLAS's threads and free its memory, must find calls done. (Destructors of this library do
/// not run, no_destructors.cpp.)
void watch_process() {
  watch_forks();
  on_exit(end_calls, nullptr);
}

/// With the first call: where a program links this library, the loader registers what ends all
/// libraries after it has loaded this one. By an atomic, as a fork may leave anything else half
/// made.
void watch_from_now() {
  static std::atomic<bool> is_watched{false};
  if (is_watched || is_watched.exchange(true))
    return;
  watch_process();
  support::watch_opened_libraries(watch_process);
}

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
  while (++at_work, forks > 0 && preparations == 0) {
    --at_work;
    while (forks > 0)
      std::this_thread::sleep_for(kLook);
  }
  ++own_calls;
  watch_from_now();
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
