// Groups of ranks that are GPUs, by NCCL: one communicator a group, collectives queued on the
// stream that they are given. A thread watches them, so that a rank that is gone or a collective
// that does not end stops nobody for good: then all communicators are aborted, which ends their
// kernels, and every later call fails.
#pragma once

#include "engine/communicator.h"
#include "engine/nccl.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tsc_engine {

struct CudaGroup {
  std::vector<std::string> names; // of the group; "": of all that no group is called
  int64_t rank = 0, ranks = 1;
  NcclId id;
  /// A caller's own, in place of one made of the id: it says rank and ranks, and is neither aborted
  /// nor destroyed.
  NcclComm communicator = nullptr;
};

/// Where a rank is in its run; collectives are counted from 1.
struct CollectiveProgress {
  uint64_t begun = 0, done = 0;
  std::string step, node; // of the last that has begun
};
struct CudaGroupsFailure {
  bool timed_out = false;
  std::string text;
  CollectiveProgress progress;
};

struct CudaGroupsOptions {
  int device_index = 0;
  std::vector<CudaGroup> groups;
  /// For a collective to end from when its stream has come to it, and for groups to be made.
  double timeout_seconds = 300;
  /// Asked by the watching thread and while groups are made: whether all is to end. May be null, as
  /// the others, which are called by the thread that watches or makes collectives.
  std::function<bool()> is_interrupted;
  std::function<void(const CudaGroupsFailure &)> on_failure;
  std::function<void(const CollectiveProgress &)> on_progress;
  /// Runs may be recorded as CUDA graphs: all ranks record and replay the same ones.
  bool may_record = false;
  /// Around each call of NCCL; of a recorded run, before and after it is queued, for each of its
  /// collectives.
  std::function<void(const CollectiveCall &)> before, after;
};

/// Makes what is not the caller's; all ranks of a group do so at once. Errors: Error (device): no
/// NCCL, ranks that do not come within the time, what NCCL says.
std::unique_ptr<Groups> make_cuda_groups(const CudaGroupsOptions &options);

/// An id of a new group. Errors: Error (device).
NcclId make_nccl_id();

} // namespace tsc_engine
