// One rank among others, from the first meeting to the goodbye: the store, how far this rank is,
// and what has failed. Failures reach all ranks, and each says where it was: no rank hangs because
// another is gone.
#pragma once

#include "ranks/store.h"
#include "support/diagnostic.h"

#include <condition_variable>
#include <memory>

namespace tsc::ranks {

class World {
public:
  struct Options {
    double timeout_seconds = 300; // for ranks to come, and for each collective
    /// Of a process that does not end by itself after a failure.
    double grace_seconds = 5;
  };
  /// Rank 0 holds the store unless the launcher does. Errors: UserError (device) TSC-R044 if its
  /// port is taken, and those of StoreClient.
  World(const Place &place, const Options &options);
  /// Goes without a goodbye if `leave` was not called: the others are told that this rank is lost,
  /// unless they know of a failure.
  ~World();
  World(const World &) = delete;
  World &operator=(const World &) = delete;

  int64_t rank() const { return place_.rank; }
  int64_t size() const { return place_.world; }
  const Place &place() const { return place_; }
  double timeout_seconds() const { return options_.timeout_seconds; }
  StoreClient &store() { return *client_; }

  /// The value of the key that another rank sets. Errors: throw_failure.
  std::string wait_for(const std::string &key);
  /// Every rank's value of `name`, once all have come here. Errors: throw_failure; TSC-R045 naming
  /// the ranks that do not come.
  std::vector<std::string> exchange(const std::string &name, const std::string &own);
  /// Says goodbye once all are here; from then on what happens to one rank is no failure.
  void leave();

  /// How far this rank is: collective number `begun` (from 1) is the last that has begun.
  void set_progress(uint64_t begun, uint64_t done, const std::string &step,
                    const std::string &node);
  /// The same by one more collective, as `done` ends it.
  void begin(const char *step, const char *node);
  void end();
  uint64_t begun() const { return begun_; }

  /// This rank has met a failure: all are told, unless another was first.
  void fail(const std::string &code, const std::string &text);
  /// A failure is known: another rank's, or this one's that all know of.
  bool has_failed() const { return has_failed_; }
  /// The same, or this rank has met one.
  bool is_failing() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    return own_ || known_;
  }
  /// What failed, as this rank sees it: where it was, and which ranks have come there. Waits for
  /// the store's word if it is not there yet.
  support::UserError failure();
  [[noreturn]] void throw_failure() { throw failure(); }
  void check() {
    if (has_failed_)
      throw_failure();
  }

private:
  void watch();
  support::UserError describe(const Failure &failure) const;

  const Place place_;
  const Options options_;
  std::unique_ptr<StoreServer> server_;
  std::unique_ptr<StoreClient> client_;
  std::unique_ptr<StoreWatch> watch_;
  std::atomic<uint64_t> begun_{0}, done_{0};
  std::atomic<bool> has_failed_{false}, is_ending_{false}, has_left_{false};
  mutable std::mutex mutex_; // of what follows
  std::condition_variable told_;
  std::string step_, node_;
  std::optional<Failure> own_, known_;
  std::thread thread_;
};

} // namespace tsc::ranks
