#include "scheduler/steps.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

/// True if only members of the group read `buffer`, and no other buffer stands for the same memory.
bool is_internal(const State &state, BufferId buffer, const std::vector<bool> &is_member,
                 const std::vector<bool> &is_aliased) {
  const ir::Buffer &info = state.module.buffer(buffer);
  if (info.mutates != ir::kNone || state.renamed[buffer] != ir::kNone || is_aliased[buffer])
    return false;
  const std::vector<User> &users = state.schedule.users[buffer];
  return std::all_of(users.begin(), users.end(), [&](const User &user) {
    return user.is_weak || (user.node != ir::kNone && is_member[user.node]);
  });
}

std::vector<bool> find_aliased(const ir::Module &module) {
  std::vector<bool> is_aliased(module.buffers.size(), false);
  for (BufferId buffer = 0; buffer < module.buffers.size(); ++buffer) {
    for (const BufferId alias : module.buffer(buffer).aliases)
      is_aliased[buffer] = is_aliased[alias] = true;
  }
  return is_aliased;
}

} // namespace

void find_internal_buffers(State &state) {
  const std::vector<bool> is_aliased = find_aliased(state.module);
  std::vector<bool> is_member(state.schedule.nodes.size(), false);
  for (Group &group : state.schedule.groups) {
    if (group.node_class != NodeClass::scheduler)
      continue;
    for (const NodeId member : group.members)
      is_member[member] = true;
    for (const NodeId member : group.members) {
      for (const BufferId output : state.operation(member).outputs) {
        if (is_internal(state, output, is_member, is_aliased))
          group.internal_buffers.push_back(output);
      }
    }
    for (const NodeId member : group.members)
      is_member[member] = false;
    std::sort(group.internal_buffers.begin(), group.internal_buffers.end());
    const auto internal = [&](BufferId buffer) {
      return std::binary_search(group.internal_buffers.begin(), group.internal_buffers.end(),
                                buffer);
    };
    group.last_uses.erase(std::remove_if(group.last_uses.begin(), group.last_uses.end(), internal),
                          group.last_uses.end());
  }
}

} // namespace tsc::scheduler
