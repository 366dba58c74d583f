#include "scheduler/list_schedule.h"

#include "scheduler/topological_order.h"
#include "support/diagnostic.h"

#include <queue>
#include <tuple>

namespace tsc::scheduler {

WaitingGroups find_waiting(const State &state) {
  const std::vector<Group> &groups = state.schedule.groups;
  std::vector<uint32_t> group_of(state.schedule.nodes.size(), ir::kNone);
  for (uint32_t i = 0; i < groups.size(); ++i)
    for (const NodeId member : groups[i].members)
      group_of[member] = i;
  WaitingGroups waiting;
  waiting.after.resize(groups.size());
  waiting.count.assign(groups.size(), 0);
  for (uint32_t i = 0; i < groups.size(); ++i) {
    for (const NodeId producer : producers_by_name(state, groups[i].members)) {
      std::vector<uint32_t> &after = waiting.after[group_of[producer]];
      if (group_of[producer] != i && (after.empty() || after.back() != i)) {
        after.push_back(i);
        ++waiting.count[i];
      }
    }
  }
  return waiting;
}

void list_schedule(State &state, const std::vector<Priority> &priorities) {
  std::vector<Group> &groups = state.schedule.groups;
  WaitingGroups waiting = find_waiting(state);
  using Entry = std::tuple<uint64_t, uint64_t, uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  const auto push = [&](uint32_t i) {
    ready.emplace(priorities[i].first, priorities[i].second, i);
  };
  for (uint32_t i = 0; i < groups.size(); ++i)
    if (waiting.count[i] == 0)
      push(i);
  std::vector<Group> ordered;
  ordered.reserve(groups.size());
  while (!ready.empty()) {
    const uint32_t next = std::get<2>(ready.top());
    ready.pop();
    ordered.push_back(std::move(groups[next]));
    for (const uint32_t after : waiting.after[next])
      if (--waiting.count[after] == 0)
        push(after);
  }
  support::require(ordered.size() == groups.size(), "scheduler", "groups wait for each other");
  groups = std::move(ordered);
}

std::optional<ir::Library> library_of(const State &state, NodeId node) {
  const auto *call = std::get_if<ir::Extern>(&state.operation(node).kind);
  return call != nullptr ? std::optional<ir::Library>(call->library) : std::nullopt;
}

bool has_collectives(const State &state) {
  for (NodeId id = 0; id < state.schedule.nodes.size(); ++id) {
    const std::optional<ir::Library> library = library_of(state, id);
    if (library && ir::is_collective(*library))
      return true;
  }
  return false;
}

} // namespace tsc::scheduler
