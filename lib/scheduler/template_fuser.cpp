#include "scheduler/template_fuser.h"

#include "scheduler/dependency.h"
#include "scheduler/storages.h"

#include <set>
#include <utility>

namespace tsc::scheduler {

TemplateFuser::TemplateFuser(State &state) : state_(state), groups_(state.schedule.groups) {
  group_of_.assign(state.schedule.nodes.size(), ir::kNone);
  for (size_t i = 0; i < groups_.size(); ++i)
    for (const NodeId member : groups_[i].members)
      group_of_[member] = static_cast<uint32_t>(i);
}

int64_t TemplateFuser::bytes_of(const Group &group, BufferId without, bool others_only,
                                bool packed) const {
  std::set<std::pair<BufferId, bool>> seen;
  std::set<BufferId> written;
  int64_t bytes = 0;
  for (const NodeId member : group.members) {
    const Node &node = state_.schedule.nodes[member];
    for (const auto *list : {&node.reads, &node.writes})
      for (const Dependency &dependency : *list) {
        const BufferId id = buffer_of(dependency);
        const bool writes = list == &node.writes;
        if (writes)
          written.insert(id);
        if (is_weak(dependency) || (others_only && id == without) ||
            (!writes && written.count(id) > 0) || (writes && only_here(group, id, without)) ||
            !seen.insert({id, writes}).second)
          continue;
        const int64_t touched = bytes_hint(state_.module, dependency);
        bytes += packed
                     ? std::min(touched, storage_bytes(state_.module, state_.module.storage_of(id)))
                     : touched;
      }
  }
  return bytes;
}

bool TemplateFuser::only_here(const Group &group, BufferId id, BufferId kept) const {
  return id != kept && users_are(id, [&](NodeId user) {
           return std::find(group.members.begin(), group.members.end(), user) !=
                  group.members.end();
         });
}

bool TemplateFuser::writes_between(size_t from, size_t to, std::span<const size_t> readers) const {
  std::set<BufferId> read;
  for (const size_t reader : readers)
    for (const NodeId member : groups_[reader].members)
      for (const Dependency &dependency : state_.schedule.nodes[member].reads)
        read.insert(state_.module.storage_of(buffer_of(dependency)));
  for (size_t i = from + 1; i < to; ++i)
    for (const NodeId member : groups_[i].members)
      for (const Dependency &write : state_.schedule.nodes[member].writes)
        if (read.count(state_.module.storage_of(buffer_of(write))) > 0)
          return true;
  return false;
}

void TemplateFuser::remove_empty_groups() {
  groups_.erase(std::remove_if(groups_.begin(), groups_.end(),
                               [](const Group &group) { return group.members.empty(); }),
                groups_.end());
}

void TemplateFuser::refuse(NodeId first, NodeId second, Refusal refusal, const std::string &why) {
  record(first, second, refusal, 0, state_.operation(first).name + ": " + why);
}

void TemplateFuser::record(NodeId first, NodeId second, Refusal refusal, int64_t bytes,
                           std::string text) {
  FusionDecision decision;
  decision.first = first;
  decision.second = second;
  decision.refusal = refusal;
  decision.shared_bytes = std::max<int64_t>(0, bytes);
  decision.detail = std::move(text);
  state_.schedule.decisions.push_back(std::move(decision));
}

} // namespace tsc::scheduler
