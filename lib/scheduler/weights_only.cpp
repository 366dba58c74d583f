#include "scheduler/weights_only.h"

#include "scheduler/dependency.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

bool is_returned(const State &state, BufferId buffer) {
  const std::vector<User> &users = state.schedule.users[buffer];
  return std::any_of(users.begin(), users.end(),
                     [](const User &user) { return user.node == ir::kNone; });
}

bool writes_for_the_program(const State &state, NodeId id) {
  const ir::Module &module = state.module;
  const ir::Operation &operation = state.operation(id);
  return !operation.has_side_effects &&
         std::all_of(operation.outputs.begin(), operation.outputs.end(), [&](BufferId output) {
           const BufferId storage = module.storage_of(output);
           return module.buffer(output).mutates == ir::kNone && !is_returned(state, output) &&
                  !is_returned(state, storage) &&
                  module.buffer(storage).layout.storage_size().is_integer();
         });
}

} // namespace

WeightsOnly find_weights_only(const State &state) {
  const ir::Module &module = state.module;
  WeightsOnly found;
  found.buffers.assign(module.buffers.size(), false);
  for (BufferId id = 0; id < module.buffers.size(); ++id) {
    const ir::Buffer &buffer = module.buffer(id);
    found.buffers[id] = buffer.role != ir::Buffer::Role::computed && !buffer.weight.empty();
  }
  for (const ir::Buffer &buffer : module.buffers)
    if (buffer.mutates != ir::kNone)
      found.buffers[module.storage_of(buffer.mutates)] = false;
  for (const Group &group : state.schedule.groups) {
    const auto is_known = [&](const Dependency &read) {
      const NodeId producer = state.producer[buffer_of(read)];
      const bool is_own =
          std::find(group.members.begin(), group.members.end(), producer) != group.members.end();
      return is_own || (!is_weak(read) && found.buffers[buffer_of(read)]);
    };
    const bool once = std::all_of(group.members.begin(), group.members.end(), [&](NodeId member) {
      const std::vector<Dependency> &reads = state.schedule.nodes[member].reads;
      return std::all_of(reads.begin(), reads.end(), is_known) &&
             writes_for_the_program(state, member);
    });
    found.groups.push_back(once);
    if (once)
      for (const NodeId member : group.members)
        for (const BufferId output : state.operation(member).outputs)
          found.buffers[output] = true;
  }
  return found;
}

} // namespace tsc::scheduler
