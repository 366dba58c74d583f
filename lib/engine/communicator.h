// What ranks do together. A rank is one run of the program with inputs of its own; a Communicator
// is its connection to the others of one group, Groups are all of them. Who runs several ranks
// implements both: on the host threads or processes (lib/ranks), on GPUs NCCL
// (cuda_communicator.h).
#pragma once

#include "engine/device.h"

#include <cstdint>
#include <memory>

namespace tsc_engine {

enum class Reduction : int32_t {
  sum,
  average,
  maximum,
  minimum,
  product,
  bit_and,
  bit_or,
  bit_xor
};

/// What a collective does with `from` and `to`, contiguous device memory that does not overlap
/// (all_reduce and broadcast may have both at one place).
enum class CollectiveKind : int32_t {
  all_gather,     // `to`: the `count` elements of every rank's `from`, in the order of ranks
  reduce_scatter, // `from`: `count` elements for each rank; `to`: those for this rank, reduced
  all_reduce,     // `to`: the `count` elements of `from`, reduced over ranks
  broadcast,      // `to`: the `count` elements of rank `root`'s `from`
  all_to_all,     // `from`: sends[r] elements for each rank r, `to`: receives[r] of each, in order
  barrier         // no memory
};

/// Reductions add up in the order of ranks, in f32 (f64, int64 for those), and round once where the
/// host computes; NCCL has an order of its own. Of bools the sum is "or", the product "and".
struct CollectiveCall {
  CollectiveKind kind = CollectiveKind::barrier;
  Reduction reduction = Reduction::sum;
  DType dtype = DType::u8;
  int64_t count = 0; // elements
  int64_t root = 0;  // a rank of the group
  const int64_t *sends = nullptr, *receives = nullptr;
  const char *step = "", *node = ""; // for errors
};

class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0; // in the group
  virtual int64_t ranks() const = 0;
  /// Queued on the stream. All ranks of the group make the same calls in the same order. Errors:
  /// Error (device) where another rank or the connection failed.
  virtual void run(const CollectiveCall &call, const void *from, void *to, Stream stream) = 0;
};

/// The collectives of a recorded run, as the groups that watch over them know them.
class RecordedCollectives {
public:
  virtual ~RecordedCollectives() = default;
};

/// The groups that one rank belongs to.
class Groups {
public:
  virtual ~Groups() = default;
  /// Null if there is none of that name. The communicator is the groups'.
  virtual Communicator *find(const char *name) = 0;
  /// Throws Error (device) if communication failed since the groups were made: what runs left is
  /// not to be used then. Called when a run's streams are done.
  virtual void check() {}

  /// Why runs with collectives of these groups are queued step by step. Null: they may be recorded
  /// (Device::record_work), each between begin_recording and end_recording, and be replayed, each
  /// between begin_replay and end_replay. Whoever holds such a recording lets go of it before the
  /// groups end.
  virtual const char *why_not_recorded() const { return "these groups cannot be recorded"; }
  virtual void begin_recording() {}
  /// `stream`: the one that is recorded, on which all others have ended.
  virtual std::unique_ptr<RecordedCollectives> end_recording(Stream) { return nullptr; }
  /// Instead of that, after an error.
  virtual void give_up_recording() {}
  /// Errors: Error (device), as Communicator::run.
  virtual void begin_replay(const RecordedCollectives &, Stream) {}
  virtual void end_replay(const RecordedCollectives &, Stream) {}
};

} // namespace tsc_engine
