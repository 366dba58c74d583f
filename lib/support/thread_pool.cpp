#include "support/thread_pool.h"

#include "support/environment.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <pthread.h>
#include <system_error>
#include <thread>
#include <vector>

namespace tsc::support {
namespace {

thread_local bool inside_parallel_for = false;

/// One call of parallel_for. Workers hold it by shared_ptr: one that wakes late finds no index
/// left.
struct Job {
  const std::function<void(size_t)> *body;
  size_t count;
  std::atomic<size_t> next{0};
  std::atomic<size_t> done{0};
  std::mutex mutex;
  std::condition_variable finished;
  size_t first_error = SIZE_MAX;
  std::exception_ptr error;

  void work() {
    inside_parallel_for = true;
    for (size_t i; (i = next.fetch_add(1)) < count;) {
      try {
        (*body)(i);
      } catch (...) {
        std::lock_guard<std::mutex> lock(mutex);
        if (i < first_error) {
          first_error = i;
          error = std::current_exception();
        }
      }
      if (done.fetch_add(1) + 1 == count) {
        std::lock_guard<std::mutex> lock(mutex);
        finished.notify_all();
      }
    }
    inside_parallel_for = false;
  }
};

class Pool;
/// Never destroyed: at exit other threads may still be in parallel_for. Null in the child of a
/// fork, which has none of its threads: what the pool was doing there is left as it is.
std::atomic<Pool *> pool_of_process{nullptr};
[[maybe_unused]] const int forgets_in_child =
    pthread_atfork(nullptr, nullptr, [] { pool_of_process.store(nullptr); });

class Pool {
public:
  static Pool &shared() {
    Pool *found = pool_of_process.load();
    if (found == nullptr) {
      auto made = std::make_unique<Pool>();
      if (pool_of_process.compare_exchange_strong(found, made.get()))
        return *made.release();
    }
    return *found; // another thread's, perhaps made meanwhile
  }

  Pool() {
    try {
      for (size_t i = 1; i < parallelism(); ++i)
        threads_.emplace_back([this] { loop(); });
    } catch (const std::system_error &) { // no more to be had: those that there are do it
    } catch (const std::bad_alloc &) {
    }
  }
  ~Pool() {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      stop_ = true;
    }
    wake_.notify_all();
    for (std::thread &thread : threads_)
      thread.join();
  }
  void run(const std::shared_ptr<Job> &job) {
    {
      std::lock_guard<std::mutex> lock(mutex_);
      jobs_.push_back(job);
    }
    wake_.notify_all();
    job->work();
    {
      std::lock_guard<std::mutex> lock(mutex_);
      jobs_.erase(std::find(jobs_.begin(), jobs_.end(), job));
    }
    std::unique_lock<std::mutex> lock(job->mutex);
    job->finished.wait(lock, [&] { return job->done.load() == job->count; });
  }

private:
  /// The first call that has an index left; null if none has.
  std::shared_ptr<Job> open_job() const {
    for (const std::shared_ptr<Job> &job : jobs_)
      if (job->next.load() < job->count)
        return job;
    return nullptr;
  }
  void loop() {
    for (;;) {
      std::shared_ptr<Job> job;
      {
        std::unique_lock<std::mutex> lock(mutex_);
        wake_.wait(lock, [&] { return stop_ || (job = open_job()); });
        if (stop_)
          return;
      }
      job->work();
    }
  }

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Job>> jobs_; // calls under way, oldest first
  bool stop_ = false;
};

} // namespace

size_t parallelism() {
  static const size_t count = [] {
    const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
    return static_cast<size_t>(
        environment_number("TSC_THREADS", 1, kMostThreads).value_or(std::min(cores, kMostThreads)));
  }();
  return count;
}

void parallel_for(size_t count, const std::function<void(size_t)> &body) {
  if (count == 0)
    return;
  if (count == 1 || inside_parallel_for || parallelism() == 1) {
    for (size_t i = 0; i < count; ++i)
      body(i);
    return;
  }
  auto job = std::make_shared<Job>();
  job->body = &body;
  job->count = count;
  Pool::shared().run(job);
  if (job->error)
    std::rethrow_exception(job->error);
}

} // namespace tsc::support
