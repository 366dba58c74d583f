#include "scheduler/dependency.h"
#include "scheduler/steps.h"
#include "scheduler/storages.h"

#include <algorithm>

namespace tsc::scheduler {

void find_last_uses(State &state) {
  const ir::Module &module = state.module;
  std::vector<bool> used_later(module.buffers.size(), false);
  std::vector<BufferId> storages;
  for (const ir::Output &output : module.outputs)
    if (const auto *view = std::get_if<ir::BufferView>(&output.value))
      add_storages(module, view->buffer, storages);
  for (const BufferId buffer : storages)
    used_later[buffer] = true;
  for (size_t i = state.schedule.groups.size(); i-- > 0;) {
    Group &group = state.schedule.groups[i];
    storages.clear();
    for (const NodeId member : group.members) {
      const Node &node = state.schedule.nodes[member];
      for (const std::vector<Dependency> *list : {&node.reads, &node.writes})
        for (const Dependency &dependency : *list)
          add_storages(module, buffer_of(dependency), storages);
    }
    for (const BufferId storage : storages) {
      if (used_later[storage] || module.buffer(storage).role != ir::Buffer::Role::computed)
        continue;
      used_later[storage] = true;
      group.last_uses.push_back(storage);
    }
    std::sort(group.last_uses.begin(), group.last_uses.end());
  }
}

} // namespace tsc::scheduler
