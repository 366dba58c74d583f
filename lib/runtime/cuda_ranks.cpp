#include "runtime/cuda_ranks.h"

#include "ranks/fault.h"
#include "runtime/cuda_module.h"
#include "support/diagnostic.h"
#include "support/text.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace tsc::runtime {
namespace {

using ranks::FaultPoint;
using support::ExitCode;
using support::UserError;

std::string text_of(const std::vector<int64_t> &members) {
  std::vector<std::string> words;
  for (const int64_t member : members)
    words.push_back(std::to_string(member));
  return support::join(words, ",");
}

const CudaModule &need_module(int64_t rank) {
  std::string why;
  if (const CudaModule *module = load_cuda_module(why))
    return *module;
  throw UserError(ExitCode::device,
                  {.code = "TSC-R020",
                   .message = "rank " + std::to_string(rank) + ": CUDA cannot be used: " + why,
                   .next_step = "use --device host"});
}

/// Of the group that these ranks make up: made by the first of them, brought to the others.
tsc_engine::NcclId id_of(ranks::World &world, const CudaModule &module,
                         const std::vector<int64_t> &members) {
  const std::string key = "nccl/" + text_of(members);
  tsc_engine::NcclId id;
  if (members.front() == world.rank()) {
    id = module.make_nccl_id();
    world.store().set(key, std::string(id.bytes, sizeof id.bytes));
    return id;
  }
  const std::string bytes = world.wait_for(key);
  std::memcpy(id.bytes, bytes.data(), std::min(bytes.size(), sizeof id.bytes));
  return id;
}

/// Tells the world how far the rank is; and where tests want a fault, is one.
void connect_world(ranks::World &world, tsc_engine::CudaGroupsOptions &options) {
  const auto called = std::make_shared<uint64_t>(0);
  options.timeout_seconds = world.timeout_seconds();
  options.may_record = true; // all ranks run the same, as often
  options.is_interrupted = [&world] { return world.has_failed(); };
  options.on_progress = [&world](const tsc_engine::CollectiveProgress &progress) {
    world.set_progress(progress.begun, progress.done, progress.step, progress.node);
    for (uint64_t done = 1; done <= progress.done; ++done)
      ranks::meet_fault(world.rank(), done, FaultPoint::after);
  };
  options.on_failure = [&world](const tsc_engine::CudaGroupsFailure &failure) {
    if (failure.timed_out)
      world.fail("TSC-R041", "on the GPU: " + failure.text);
    else
      world.fail("TSC-R042", "on the GPU: " + failure.text);
  };
  options.before = [&world, called](const tsc_engine::CollectiveCall &) {
    ranks::meet_fault(world.rank(), ++*called, FaultPoint::before);
  };
  options.after = [&world, called](const tsc_engine::CollectiveCall &) {
    ranks::meet_fault(world.rank(), *called, FaultPoint::within);
  };
}

} // namespace

std::unique_ptr<tsc_engine::Groups> make_cuda_ranks(ranks::World &world,
                                                    const ranks::GroupTable &table,
                                                    const std::set<std::string> &names,
                                                    int device_index) {
  const CudaModule &module = need_module(world.rank());
  tsc_engine::CudaGroupsOptions options;
  options.device_index = device_index;
  connect_world(world, options);
  std::map<std::vector<int64_t>, std::vector<std::string>> by_members;
  for (const std::string &name : names)
    by_members[table.members(name, world.rank())].push_back(name);
  try {
    for (const auto &[members, own_names] : by_members) {
      tsc_engine::CudaGroup group;
      group.names = own_names;
      group.ranks = static_cast<int64_t>(members.size());
      group.rank = std::find(members.begin(), members.end(), world.rank()) - members.begin();
      group.id = id_of(world, module, members);
      options.groups.push_back(std::move(group));
    }
  } catch (const tsc_engine::Error &error) {
    throw UserError(ExitCode::device,
                    {.code = "TSC-R048",
                     .message = "rank " + std::to_string(world.rank()) +
                                ": NCCL cannot be used: " + error.what(),
                     .next_step = "install NCCL 2 (libnccl.so.2), or set TSC_NCCL to its path"});
  }
  try {
    return module.make_groups(options);
  } catch (const tsc_engine::Error &error) {
    world.fail("TSC-R042", std::string("groups cannot be made: ") + error.what());
    world.throw_failure();
  }
}

int cuda_device_count(std::string &why) {
  const CudaModule *module = load_cuda_module(why);
  if (module == nullptr)
    return 0;
  int count = 0;
  try {
    for (;; ++count)
      module->arch(count);
  } catch (const tsc_engine::Error &error) {
    why = error.what();
  }
  return count;
}

void need_cuda_device(int64_t rank, int64_t device_index) {
  std::string why;
  const int count = cuda_device_count(why);
  if (count == 0)
    throw UserError(ExitCode::device, {.code = "TSC-R020",
                                       .message = "CUDA cannot be used: " + why,
                                       .next_step = "use --device host"});
  if (device_index >= count)
    throw UserError(
        ExitCode::device,
        {.code = "TSC-R049",
         .message = "rank " + std::to_string(rank) + " needs GPU number " +
                    std::to_string(device_index) + ", and there " +
                    (count == 1 ? "is 1" : "are " + std::to_string(count)) + " here",
         .next_step = "run fewer ranks on this machine; where each process sees a GPU of its own "
                      "(CUDA_VISIBLE_DEVICES), set LOCAL_RANK=0"});
}

} // namespace tsc::runtime
