// The graph of groups during fusion: who waits for whom, kept in a topological order that fusion
// updates locally, so that a question about paths looks only at what lies between two groups.
#pragma once

#include "scheduler/state.h"

#include <vector>

namespace tsc::scheduler {

using GroupId = uint32_t; // position of the group's first node in Schedule::nodes

class GroupGraph {
public:
  /// One group a block and a list, and one for each other node. `state.order` must be set and the
  /// nodes' predecessors known.
  explicit GroupGraph(const State &state);

  GroupId group_of(NodeId node) const { return group_of_[node]; }
  /// Position in a topological order of the groups.
  uint32_t rank(GroupId group) const { return rank_[group]; }

  /// True if a member of `later` must directly follow one of `earlier`.
  bool is_direct(GroupId earlier, GroupId later) const;
  /// Whether `later` waits for `earlier` by way of another group: then they cannot become one.
  /// Precondition: rank(earlier) < rank(later).
  enum class Detour : uint8_t { none, found, unknown }; // unknown: the search gave up
  Detour find_detour(GroupId earlier, GroupId later);
  /// After find_detour found one: the last group on it.
  GroupId detour() const { return detour_; }

  /// Makes `earlier` hold both. Preconditions: find_detour(earlier, later) was the last search and
  /// found no path through others.
  void merge(GroupId earlier, GroupId later);

  /// Ranks afresh, from an order of the groups that are alive.
  void renumber(const std::vector<GroupId> &order);

  const std::vector<NodeId> &members(GroupId group) const { return members_[group]; }
  const std::vector<NodeId> &predecessors(NodeId node) const { return nodes_[node].ancestors_hint; }
  const std::vector<NodeId> &successors(NodeId node) const { return successors_[node]; }

private:
  const std::vector<Node> &nodes_;
  std::vector<std::vector<NodeId>> successors_; // by node
  std::vector<std::vector<NodeId>> members_;    // by group
  std::vector<GroupId> group_of_;
  std::vector<uint32_t> rank_;
  std::vector<uint32_t> visited_; // by group: the search that saw it last
  uint32_t search_ = 0;
  GroupId detour_ = 0;
  std::vector<GroupId> descendants_; // of the last search's `earlier`, ranked before `later`

  bool visit(GroupId group);
  std::vector<GroupId> ancestors_between(GroupId earlier, GroupId later);
};

} // namespace tsc::scheduler
