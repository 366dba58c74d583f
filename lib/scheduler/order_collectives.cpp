// One order of all collectives, the same on every rank.
#include "scheduler/dependency.h"
#include "scheduler/list_schedule.h"
#include "scheduler/prefetch.h"
#include "scheduler/steps.h"
#include "scheduler/topological_order.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

/// Nodes that run one after the other with nothing between: a block, or a node alone. Each is named
/// by its first node.
class Units {
public:
  explicit Units(const State &state) : state_(state), first_(state.schedule.nodes.size()) {
    for (NodeId id = 0; id < first_.size(); ++id)
      first_[id] = id;
    for (const std::vector<NodeId> &block : state.blocks)
      for (const NodeId member : block)
        first_[member] = block[0];
    members_.resize(first_.size());
    for (const std::vector<NodeId> &block : state.blocks)
      members_[block[0]] = block;
  }

  NodeId unit_of(NodeId node) const { return first_[node]; }
  std::vector<NodeId> members(NodeId unit) const {
    return members_[unit].empty() ? std::vector<NodeId>{unit} : members_[unit];
  }

  /// In the order in which their earliest nodes stand in state.order.
  std::vector<NodeId> in_order() const {
    std::vector<bool> seen(first_.size(), false);
    std::vector<NodeId> units;
    for (const NodeId id : state_.order) {
      if (!seen[first_[id]]) {
        seen[first_[id]] = true;
        units.push_back(first_[id]);
      }
    }
    return units;
  }

private:
  const State &state_;
  std::vector<NodeId> first_;
  std::vector<std::vector<NodeId>> members_;
};

/// `later` runs after everything in `earlier`.
void impose(State &state, const std::vector<NodeId> &earlier, NodeId later) {
  for (const NodeId node : earlier) {
    const std::vector<BufferId> &outputs = state.operation(node).outputs;
    std::vector<BufferId> &awaited = state.awaited[later];
    awaited.insert(awaited.end(), outputs.begin(), outputs.end());
    std::vector<NodeId> &predecessors = state.schedule.nodes[later].ancestors_hint;
    const auto at = std::lower_bound(predecessors.begin(), predecessors.end(), node);
    if (at == predecessors.end() || *at != node)
      predecessors.insert(at, node);
  }
}

/// A pair starts when the one before is done.
void impose_pairs(State &state, const std::vector<State::BlockPair> &pairs) {
  for (size_t i = 1; i < pairs.size(); ++i)
    impose(state, state.blocks[pairs[i - 1].done], state.blocks[pairs[i].start][0]);
}

bool communicates(const State &state, const std::vector<NodeId> &nodes) {
  return std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) {
    const std::optional<ir::Library> library = library_of(state, id);
    return library && ir::is_collective(*library);
  });
}

void impose_order_of_collectives(State &state, const Units &units) {
  std::vector<NodeId> collectives = units.in_order();
  collectives.erase(
      std::remove_if(collectives.begin(), collectives.end(),
                     [&](NodeId unit) { return !communicates(state, units.members(unit)); }),
      collectives.end());
  for (const Prefetch &prefetch : plan_prefetch(state, collectives))
    impose(state, {prefetch.after}, prefetch.gather);
  for (size_t i = 1; i < collectives.size(); ++i)
    impose(state, units.members(collectives[i - 1]), collectives[i]);
}

/// Sorts state.order; false if units wait for each other, and then nothing is changed.
bool sort_units(State &state, const Units &units) {
  const auto producers = [&](uint32_t unit) {
    std::vector<NodeId> found = producers_by_name(state, units.members(unit));
    for (NodeId &node : found)
      node = units.unit_of(node);
    return found;
  };
  const std::vector<uint32_t> sorted =
      topological_order(units.in_order(), state.schedule.nodes.size(), producers);
  std::vector<uint32_t> position(state.schedule.nodes.size(), 0);
  for (uint32_t i = 0; i < sorted.size(); ++i)
    position[sorted[i]] = i;
  std::vector<NodeId> order;
  for (const uint32_t unit : sorted) {
    for (const uint32_t producer : producers(unit))
      if (position[producer] > position[unit])
        return false;
    const std::vector<NodeId> members = units.members(unit);
    order.insert(order.end(), members.begin(), members.end());
  }
  state.order = std::move(order);
  return true;
}

} // namespace

void order_collectives(State &state) {
  if (!state.has_collectives)
    return;
  std::vector<std::vector<NodeId>> predecessors;
  for (const Node &node : state.schedule.nodes)
    predecessors.push_back(node.ancestors_hint);
  for (const bool in_blocks : {true, false}) {
    // Blocks that wait for each other are given up: then only the collectives' order counts, which
    // is that of a topological order.
    if (!in_blocks) {
      state.blocks.clear();
      state.gathers.clear();
      state.reductions.clear();
      for (NodeId id = 0; id < predecessors.size(); ++id)
        state.schedule.nodes[id].ancestors_hint = predecessors[id];
    }
    state.awaited.assign(state.schedule.nodes.size(), {});
    const Units units(state);
    impose_pairs(state, state.gathers);
    impose_pairs(state, state.reductions);
    impose_order_of_collectives(state, units);
    if (sort_units(state, units))
      break;
  }
  for (const std::vector<NodeId> &block : state.blocks)
    state.schedule.blocks.push_back({block, state.awaited[block[0]]});
}

} // namespace tsc::scheduler
