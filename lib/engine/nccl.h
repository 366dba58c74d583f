// NCCL, found when first needed: its functions as pointers, and the little of its ABI that they
// take. Version 2.18 or newer.
#pragma once

#include "engine/cuda_library.h"

#include <string>

namespace tsc_engine {

using NcclComm = void *; // ncclComm_t
/// ncclUniqueId: made by one rank of a group and brought to all.
struct NcclId {
  char bytes[128] = {};
};
enum class NcclResult : int { success = 0, in_progress = 7 };
enum class NcclType : int {
  i8,
  u8,
  i32,
  u32,
  i64,
  u64,
  f16,
  f32,
  f64,
  bf16,
  f8e4m3,
  f8e5m2 // from 2.24 on, as the one before
};
enum class NcclReduction : int { sum, product, maximum, minimum, average };

/// ncclConfig_t as of 2.17: newer libraries take the size for what is known of it.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned int magic = 0xcafebeef, version = 21700;
  int blocking = 0; // calls return NcclResult::in_progress
  int group_size = kUndefined, least_blocks = kUndefined, most_blocks = kUndefined;
  const char *network = nullptr;
  int split_share = kUndefined;
  static constexpr int kUndefined = -2147483647 - 1;
};

class Nccl {
public:
  /// The library, which stays loaded: the file that the environment's TSC_NCCL names, else libnccl
  /// as CudaLibrary looks for it. Errors: Error (device).
  static const Nccl &get();

  int version = 0; // 22809: 2.28.9
  const char *(*error_text)(NcclResult) = nullptr;
  const char *(*last_error)(NcclComm) = nullptr;
  NcclResult (*get_id)(NcclId *) = nullptr;
  NcclResult (*init_rank)(NcclComm *, int ranks, NcclId, int rank, NcclConfig *) = nullptr;
  NcclResult (*finalize)(NcclComm) = nullptr;
  NcclResult (*destroy)(NcclComm) = nullptr;
  NcclResult (*abort)(NcclComm) = nullptr;
  NcclResult (*async_error)(NcclComm, NcclResult *) = nullptr;
  NcclResult (*rank)(NcclComm, int *) = nullptr;
  NcclResult (*count)(NcclComm, int *) = nullptr;
  NcclResult (*all_gather)(const void *, void *, size_t, NcclType, NcclComm, Stream) = nullptr;
  NcclResult (*reduce_scatter)(const void *, void *, size_t, NcclType, NcclReduction, NcclComm,
                               Stream) = nullptr;
  NcclResult (*all_reduce)(const void *, void *, size_t, NcclType, NcclReduction, NcclComm,
                           Stream) = nullptr;
  NcclResult (*broadcast)(const void *, void *, size_t, NcclType, int root, NcclComm,
                          Stream) = nullptr;
  NcclResult (*send)(const void *, size_t, NcclType, int peer, NcclComm, Stream) = nullptr;
  NcclResult (*receive)(void *, size_t, NcclType, int peer, NcclComm, Stream) = nullptr;
  NcclResult (*group_start)() = nullptr;
  NcclResult (*group_end)() = nullptr;

private:
  Nccl();
  CudaLibrary library_;
};

/// "2.28.9"
std::string nccl_version_text(int version);

} // namespace tsc_engine
