// The groups of a rank whose device is a GPU: NCCL, watched over by the rank's world.
#pragma once

#include "engine/communicator.h"
#include "ranks/group_table.h"
#include "ranks/world.h"

#include <memory>
#include <set>
#include <string>

namespace tsc::runtime {

/// Connects this rank's GPU (number `device_index`) with those of the groups called `names`: one
/// communicator for each list of ranks, whatever it is called. All ranks call it at once. The ids
/// travel by the world's store; failures of NCCL and collectives that take too long are the
/// world's. `world` outlives the groups. Errors: UserError (device) TSC-R048 where NCCL is missing;
/// World::throw_failure.
std::unique_ptr<tsc_engine::Groups> make_cuda_ranks(ranks::World &world,
                                                    const ranks::GroupTable &table,
                                                    const std::set<std::string> &names,
                                                    int device_index);

/// How many GPUs there are; 0 and why, if CUDA cannot be used.
int cuda_device_count(std::string &why);
/// Throws UserError (device) TSC-R049 unless there is a GPU of that number for `rank`.
void need_cuda_device(int64_t rank, int64_t device_index);

} // namespace tsc::runtime
