// The memory behind buffers.
#pragma once

#include "scheduler/state.h"

#include <algorithm>
#include <vector>

namespace tsc::scheduler {

/// Adds the storages that `buffer` gives access to: its own and those of the buffers it aliases.
void add_storages(const ir::Module &module, ir::BufferId buffer,
                  std::vector<ir::BufferId> &storages);
/// Bytes of the buffer's own storage; sizes that are not known take their hint.
int64_t storage_bytes(const ir::Module &module, ir::BufferId storage);
/// By buffer: true if it is an alias or has one.
std::vector<bool> find_aliased(const ir::Module &module);

/// True if nothing but the nodes that `is_member` names reads what one of them writes, and no other
/// buffer stands for the same memory: as one kernel they never store it.
template <class IsMember>
bool stays_inside(const State &state, const std::vector<bool> &is_aliased, BufferId buffer,
                  const IsMember &is_member) {
  const NodeId producer = state.producer[buffer];
  if (producer == ir::kNone || !is_member(producer) || is_aliased[buffer] ||
      state.module.buffer(buffer).mutates != ir::kNone || state.renamed[buffer] != ir::kNone)
    return false;
  const std::vector<User> &users = state.schedule.users[buffer];
  return std::all_of(users.begin(), users.end(), [&](const User &user) {
    return user.is_weak || (user.node != ir::kNone && is_member(user.node));
  });
}

} // namespace tsc::scheduler
