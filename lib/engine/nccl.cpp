#include "engine/nccl.h"

#include <cstdlib>

namespace tsc_engine {
namespace {

constexpr int kOldest = 21800; // its configuration has all that is set here

CudaLibrary open_library() {
  const char *path = std::getenv("TSC_NCCL");
  return path != nullptr && *path != '\0' ? CudaLibrary(path) : CudaLibrary("nccl", 2);
}

} // namespace

std::string nccl_version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

Nccl::Nccl() : library_(open_library()) {
  NcclResult (*get_version)(int *) = nullptr;
  library_.find(get_version, "ncclGetVersion");
  if (get_version(&version) != NcclResult::success || version < kOldest)
    throw Error(Status::device, "NCCL " + nccl_version_text(version) + " is too old; " +
                                    nccl_version_text(kOldest) + " or newer is needed");
  library_.find(error_text, "ncclGetErrorString");
  library_.find(last_error, "ncclGetLastError");
  library_.find(get_id, "ncclGetUniqueId");
  library_.find(init_rank, "ncclCommInitRankConfig");
  library_.find(finalize, "ncclCommFinalize");
  library_.find(destroy, "ncclCommDestroy");
  library_.find(abort, "ncclCommAbort");
  library_.find(async_error, "ncclCommGetAsyncError");
  library_.find(rank, "ncclCommUserRank");
  library_.find(count, "ncclCommCount");
  library_.find(all_gather, "ncclAllGather");
  library_.find(reduce_scatter, "ncclReduceScatter");
  library_.find(all_reduce, "ncclAllReduce");
  library_.find(broadcast, "ncclBroadcast");
  library_.find(send, "ncclSend");
  library_.find(receive, "ncclRecv");
  library_.find(group_start, "ncclGroupStart");
  library_.find(group_end, "ncclGroupEnd");
}

const Nccl &Nccl::get() {
  static const Nccl kNccl;
  return kNccl;
}

} // namespace tsc_engine
