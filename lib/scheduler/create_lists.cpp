// The elements of a list operator (aten._foreach_*) as one group each list, before anything is
// fused.
#include "scheduler/steps.h"
#include "scheduler/topological_order.h"

#include <algorithm>
#include <map>
#include <span>

namespace tsc::scheduler {

namespace {

class ListMaker {
public:
  explicit ListMaker(State &state)
      : state_(state), list_of_(state.schedule.nodes.size(), ir::kNone),
        successors_(state.schedule.nodes.size()) {
    for (const NodeId id : state.order)
      for (const NodeId producer : state.schedule.nodes[id].ancestors_hint)
        successors_[producer].push_back(id);
  }

  void run() {
    for (const auto &[key, nodes] : find_elements())
      make(state_.module.lists[key.first], nodes);
    if (!state_.lists.empty()) {
      order_nodes();
      write_groups();
    }
  }

private:
  State &state_;
  std::vector<uint32_t> list_of_; // by node: position in state_.lists
  std::vector<std::vector<NodeId>> successors_;

  /// The node's list, or itself.
  std::span<const NodeId> whole_of(const NodeId &id) const {
    return list_of_[id] == ir::kNone ? std::span(&id, 1) : std::span(state_.lists[list_of_[id]]);
  }

  using Key = std::pair<uint32_t, std::pair<int, int>>; // list operator, device
  std::map<Key, std::vector<NodeId>> find_elements() const {
    std::map<Key, std::vector<NodeId>> elements;
    for (NodeId id = 0; id < state_.schedule.nodes.size(); ++id) {
      const ir::Operation &operation = state_.operation(id);
      if (operation.list != ir::kNone &&
          state_.schedule.nodes[id].node_class == NodeClass::scheduler)
        elements[{operation.list,
                  {static_cast<int>(operation.device.type), operation.device.index}}]
            .push_back(id);
    }
    return elements;
  }

  void make(const std::string &made_by, const std::vector<NodeId> &nodes) {
    if (waits_for_itself(nodes)) {
      refuse(made_by, nodes);
      return;
    }
    for (const NodeId node : nodes)
      list_of_[node] = static_cast<uint32_t>(state_.lists.size());
    state_.lists.push_back(nodes);
    state_.schedule.lists.push_back({GroupList::Kind::foreach, made_by});
  }

  /// Whether a path from one of the nodes leads to another one, through lists as wholes.
  bool waits_for_itself(const std::vector<NodeId> &nodes) const {
    std::vector<bool> seen(list_of_.size(), false);
    std::vector<NodeId> open = nodes;
    while (!open.empty()) {
      const NodeId node = open.back();
      open.pop_back();
      for (const NodeId next : successors_[node]) {
        if (std::binary_search(nodes.begin(), nodes.end(), next))
          return true;
        for (const NodeId member : whole_of(next)) {
          if (seen[member])
            continue;
          seen[member] = true;
          open.push_back(member);
        }
      }
    }
    return false;
  }

  void refuse(const std::string &made_by, const std::vector<NodeId> &nodes) {
    FusionDecision decision;
    decision.first = nodes.front();
    decision.second = nodes.back();
    decision.refusal = Refusal::list_order;
    decision.detail =
        "the elements of " + made_by + ": " + std::string(to_string(decision.refusal));
    state_.schedule.decisions.push_back(std::move(decision));
  }

  /// Lists go behind the other nodes, unless these wait for them.
  void order_nodes() {
    std::vector<NodeId> firsts;
    for (const NodeId id : state_.order)
      if (list_of_[id] == ir::kNone)
        firsts.push_back(id);
    for (const std::vector<NodeId> &list : state_.lists)
      firsts.push_back(list[0]);
    const std::vector<NodeId> order = topological_order(firsts, list_of_.size(), [&](NodeId id) {
      std::vector<NodeId> producers = producers_by_name(state_, whole_of(id));
      for (NodeId &producer : producers)
        producer = whole_of(producer)[0];
      return producers;
    });
    state_.order.clear();
    for (const NodeId id : order) {
      const std::span<const NodeId> whole = whole_of(id);
      state_.order.insert(state_.order.end(), whole.begin(), whole.end());
    }
  }

  void write_groups() {
    Schedule &schedule = state_.schedule;
    schedule.groups.clear();
    for (const NodeId id : state_.order) {
      schedule.groups.push_back(group_of_one(schedule, id));
      schedule.groups.back().list = list_of_[id];
    }
  }
};

} // namespace

void create_lists(State &state) {
  // Where ranks communicate, the order serves that: a list would tie together what it spreads.
  if (state.policy().foreach_lists && !state.has_collectives && !state.module.lists.empty())
    ListMaker(state).run();
}

} // namespace tsc::scheduler
