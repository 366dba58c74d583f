#include "engine/host_threads.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <new>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <vector>

namespace tsc_engine {
namespace {

using Body = std::function<void(unsigned, int64_t, int64_t)>;
using Clock = std::chrono::steady_clock;
constexpr auto kWakeAfter = std::chrono::microseconds(30);

unsigned wanted_threads() {
  if (const char *text = std::getenv("TSC_THREADS")) {
    long value = std::strtol(text, nullptr, 10);
    if (value > 0)
      return static_cast<unsigned>(std::min(value, 1024L));
  }
  return std::clamp(std::thread::hardware_concurrency(), 1u, 1024u);
}

/// One call of run().
struct Job {
  const Body *body = nullptr;
  int64_t count = 0, chunk = 1;
  std::atomic<int64_t> next{0};
  std::mutex error_mutex;
  std::exception_ptr error;

  /// Takes ranges until none is left, or until `deadline` has passed; true if none is left.
  bool work(unsigned worker, Clock::time_point deadline) {
    for (;;) {
      int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
      if (begin >= count)
        return true;
      try {
        (*body)(worker, begin, std::min(begin + chunk, count));
      } catch (...) {
        std::lock_guard<std::mutex> lock(error_mutex);
        if (!error)
          error = std::current_exception();
        next.store(count, std::memory_order_relaxed);
      }
      if (deadline != Clock::time_point::max() && Clock::now() >= deadline)
        return false;
    }
  }
};

/// The threads that a process has for it. The child of a fork has none of them: it makes its own
/// and leaves these as they are, mutexes included, which may be held by threads that are not there.
class Team {
public:
  explicit Team(unsigned generation) : generation(generation) {}
  ~Team() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    for (std::thread &thread : threads_)
      thread.join();
  }

  void run(int64_t count, unsigned workers, const Body &body) {
    std::unique_lock<std::mutex> alone(run_mutex_, std::try_to_lock);
    if (!alone.owns_lock())
      workers = 1;
    Job job;
    job.body = &body;
    job.count = count;
    job.chunk = std::max<int64_t>(1, count / (int64_t(workers) * 16));
    if (workers == 1 || count == 1)
      job.work(0, Clock::time_point::max());
    else if (!job.work(0, Clock::now() + kWakeAfter))
      run_together(job, workers);
    if (job.error)
      std::rethrow_exception(job.error);
  }

  const unsigned generation; // of the process

private:
  void run_together(Job &job, unsigned workers) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      try {
        while (threads_.size() + 1 < workers) {
          unsigned worker = static_cast<unsigned>(threads_.size()) + 1;
          threads_.emplace_back([this, worker] { serve(worker); });
        }
      } catch (const std::system_error &) { // no more to be had: those that there are do it
      } catch (const std::bad_alloc &) {
      }
      job_ = &job;
      job_workers_ = workers;
      ++generation_;
    }
    wake_.notify_all();
    job.work(0, Clock::time_point::max());
    std::unique_lock<std::mutex> lock(mutex_);
    job_ = nullptr; // who has not woken by now stays out
    done_.wait(lock, [this] { return busy_ == 0; });
  }

  void serve(unsigned worker) {
    uint64_t seen = 0;
    std::unique_lock<std::mutex> lock(mutex_);
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || (job_ && generation_ != seen); });
      if (stopping_)
        return;
      seen = generation_;
      if (worker >= job_workers_)
        continue;
      Job *job = job_;
      ++busy_;
      lock.unlock();
      job->work(worker, Clock::time_point::max());
      lock.lock();
      if (--busy_ == 0)
        done_.notify_all();
    }
  }

  std::mutex run_mutex_; // held by the thread inside run()
  std::mutex mutex_;     // guards everything below
  std::condition_variable wake_, done_;
  std::vector<std::thread> threads_;
  Job *job_ = nullptr;
  unsigned job_workers_ = 0, busy_ = 0;
  uint64_t generation_ = 0;
  bool stopping_ = false;
};

std::mutex shared_mutex; // guards the one Pool
/// One more in the child of a fork, where nobody holds the mutex.
std::atomic<unsigned> generation{0};
[[maybe_unused]] const int counts_forks = pthread_atfork(nullptr, nullptr, [] {
  ++generation;
  new (&shared_mutex) std::mutex;
});

class Pool final : public HostThreads {
public:
  Pool() : size_(wanted_threads()), team_(new Team(generation)) {}
  ~Pool() override {
    if (Team *team = team_; team->generation == generation)
      delete team;
  }
  unsigned size() const override { return size_; }

  void run(int64_t count, unsigned limit, const Body &body) override {
    if (count > 0)
      team().run(count, limit == 0 ? size_ : std::min(limit, size_), body);
  }

private:
  Team &team() {
    Team *found = team_;
    if (found->generation == generation)
      return *found;
    auto made = std::make_unique<Team>(generation);
    if (team_.compare_exchange_strong(found, made.get()))
      return *made.release();
    return *found; // another thread's, made meanwhile
  }

  const unsigned size_;
  std::atomic<Team *> team_;
};

} // namespace

std::shared_ptr<HostThreads> HostThreads::shared() {
  static std::weak_ptr<HostThreads> instance; // shared_mutex
  std::lock_guard<std::mutex> lock(shared_mutex);
  std::shared_ptr<HostThreads> threads = instance.lock();
  if (!threads) {
    threads = std::make_shared<Pool>();
    instance = threads;
  }
  return threads;
}

} // namespace tsc_engine
