#include "scheduler/dependency.h"
#include "scheduler/steps.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

/// Marks nodes without effects whose outputs have no live, non-weak user, users before producers.
std::vector<bool> find_dead(const State &state) {
  std::vector<bool> dead(state.schedule.nodes.size(), false);
  const auto is_live = [&](const User &user) {
    return !user.is_weak && (user.node == ir::kNone || !dead[user.node]);
  };
  for (size_t i = state.order.size(); i-- > 0;) {
    const NodeId id = state.order[i];
    const ir::Operation &operation = state.operation(id);
    bool needed = operation.has_side_effects;
    for (const BufferId output : operation.outputs) {
      const std::vector<User> &users = state.schedule.users[output];
      needed = needed || std::any_of(users.begin(), users.end(), is_live);
    }
    dead[id] = !needed;
  }
  return dead;
}

void renumber_users(State &state, const std::vector<NodeId> &new_id) {
  for (std::vector<User> &users : state.schedule.users) {
    std::vector<User> kept;
    for (User user : users) {
      if (user.node != ir::kNone) {
        user.node = new_id[user.node];
        if (user.node == ir::kNone)
          continue;
      }
      kept.push_back(user);
    }
    users = std::move(kept);
  }
}

} // namespace

void remove_dead_nodes(State &state) {
  const std::vector<bool> dead = find_dead(state);
  if (std::find(dead.begin(), dead.end(), true) == dead.end())
    return;
  std::vector<NodeId> new_id(dead.size(), ir::kNone);
  std::vector<Node> kept;
  for (NodeId id = 0; id < dead.size(); ++id) {
    if (dead[id])
      continue;
    new_id[id] = static_cast<NodeId>(kept.size());
    kept.push_back(std::move(state.schedule.nodes[id]));
  }
  state.schedule.nodes = std::move(kept);
  std::vector<NodeId> order;
  for (const NodeId id : state.order)
    if (!dead[id])
      order.push_back(new_id[id]);
  state.order = std::move(order);
  renumber_users(state, new_id);
  for (NodeId &id : state.producer)
    if (id != ir::kNone)
      id = new_id[id];
  // An order that a removed node imposed is no longer needed.
  for (Node &node : state.schedule.nodes) {
    const auto gone = [&](const Dependency &read) {
      return is_weak(read) && state.producer[buffer_of(read)] == ir::kNone;
    };
    node.reads.erase(std::remove_if(node.reads.begin(), node.reads.end(), gone), node.reads.end());
  }
}

} // namespace tsc::scheduler
