// Runs that were queued before, kept as one piece of work each: a CUDA graph on a GPU.
//
// A run of known shapes queues the same steps each time; only the addresses of the caller's tensors
// may be others. The first run of some shapes is queued step by step. The second is recorded, and
// from then on a run with the same addresses costs the host one call. Addresses that are new are
// put into the recording that was used least lately, which costs the host less than the steps do
// unless they are few.
#pragma once

#include "engine/communicator.h"

#include <functional>
#include <memory>
#include <vector>

namespace tsc_engine {

/// Of the runs of one instance with the same shapes. Used by one thread at a time.
class Recordings {
public:
  /// Queues on `stream` a run with these addresses, which are all that a run depends on and that
  /// changes between runs, if it is recorded. False, and nothing was queued, if not. Allocates
  /// nothing unless there are `groups`: those with which the runs communicate, or null.
  bool replay(Device &device, Stream stream, const std::vector<void *> &addresses, Groups *groups);
  /// After replay said no: whether this run, of so many steps, is to be recorded. It is not the
  /// first time, on a stream that is being captured itself, after work that could not be recorded,
  /// and where there are recordings enough and the device cannot bring one up to date, or would
  /// take longer for it than for the few steps.
  bool is_wanted(Device &device, Stream stream, size_t steps, const Groups *groups);
  /// Records what `queue` queues on the stream that it is given, and queues it on `stream`. False,
  /// and nothing was queued, if it cannot be recorded.
  bool record(Device &device, Stream stream, const std::vector<void *> &addresses, Groups *groups,
              const std::function<void(Stream)> &queue);

  /// For tests and for who asks why: runs from a recording, and how often one was made or brought
  /// up to date.
  size_t replayed() const { return replayed_; }
  size_t recorded() const { return recorded_; }

private:
  struct Entry {
    std::vector<void *> addresses;
    std::unique_ptr<Recording> work;
    std::unique_ptr<RecordedCollectives> collectives; // null without groups
  };
  static void queue(const Entry &entry, Stream stream, Groups *groups);
  Entry *find(const std::vector<void *> &addresses);

  std::vector<Entry> entries_; // used last at the end
  bool is_known_ = false;      // these shapes ran before
  bool is_off_ = false;
  bool can_update_ = true;
  size_t recorded_ = 0, replayed_ = 0;
};

} // namespace tsc_engine
