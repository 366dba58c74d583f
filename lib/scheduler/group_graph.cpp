#include "scheduler/group_graph.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

/// A search sees at most this many groups; fusing what is further apart is refused. Keeps fusion
/// near-linear on graphs with many long skips.
constexpr size_t kMaxVisited = 4096;
constexpr size_t kMaxEdges = 1 << 16; // besides those of the group that the search starts from

} // namespace

GroupGraph::GroupGraph(const State &state) : nodes_(state.schedule.nodes) {
  const size_t count = nodes_.size();
  successors_.resize(count);
  members_.resize(count);
  group_of_.resize(count);
  rank_.resize(count);
  visited_.assign(count, 0);
  for (NodeId id = 0; id < count; ++id) {
    members_[id] = {id};
    group_of_[id] = id;
  }
  for (const auto *wholes : {&state.blocks, &state.lists}) {
    for (const std::vector<NodeId> &whole : *wholes) {
      for (const NodeId member : whole) {
        members_[member].clear();
        group_of_[member] = whole[0];
      }
      members_[whole[0]] = whole;
    }
  }
  for (uint32_t position = 0; position < count; ++position) {
    const NodeId id = state.order[position];
    rank_[id] = position;
    for (const NodeId producer : nodes_[id].ancestors_hint)
      successors_[producer].push_back(id);
  }
}

bool GroupGraph::visit(GroupId group) {
  if (visited_[group] == search_)
    return false;
  visited_[group] = search_;
  return true;
}

bool GroupGraph::is_direct(GroupId earlier, GroupId later) const {
  for (const NodeId member : members_[later]) {
    for (const NodeId producer : nodes_[member].ancestors_hint)
      if (group_of_[producer] == earlier)
        return true;
  }
  return false;
}

GroupGraph::Detour GroupGraph::find_detour(GroupId earlier, GroupId later) {
  ++search_;
  descendants_.clear();
  const uint32_t limit = rank_[later];
  for (const NodeId member : members_[earlier]) {
    for (const NodeId next : successors_[member]) {
      const GroupId group = group_of_[next];
      if (group != earlier && rank_[group] < limit && visit(group))
        descendants_.push_back(group);
    }
  }
  size_t edges = 0;
  for (size_t i = 0; i < descendants_.size(); ++i) {
    if (i > kMaxVisited || edges > kMaxEdges)
      return Detour::unknown;
    for (const NodeId member : members_[descendants_[i]]) {
      edges += successors_[member].size();
      for (const NodeId next : successors_[member]) {
        const GroupId group = group_of_[next];
        if (group == later) {
          detour_ = descendants_[i];
          return Detour::found;
        }
        if (rank_[group] < limit && visit(group))
          descendants_.push_back(group);
      }
    }
  }
  return Detour::none;
}

std::vector<GroupId> GroupGraph::ancestors_between(GroupId earlier, GroupId later) {
  ++search_;
  std::vector<GroupId> found = {later};
  visit(later);
  for (size_t i = 0; i < found.size(); ++i) {
    for (const NodeId member : members_[found[i]]) {
      for (const NodeId producer : nodes_[member].ancestors_hint) {
        const GroupId group = group_of_[producer];
        if (group != earlier && rank_[group] > rank_[earlier] && visit(group))
          found.push_back(group);
      }
    }
  }
  found.erase(found.begin()); // `later` itself
  return found;
}

// The groups ranked between the two fall into three kinds: those that wait for `earlier` (they must
// come after the merged group), those that `later` waits for (before it), and the rest, which keep
// their ranks. With none of the first kind the merged group takes the later rank. Otherwise both
// kinds and the merged group share out the ranks that they hold: first the ancestors, then the
// group, then the descendants (Pearce and Kelly's algorithm for a topological order under insertion
// of edges).
void GroupGraph::merge(GroupId earlier, GroupId later) {
  if (descendants_.empty()) {
    rank_[earlier] = rank_[later];
  } else {
    std::vector<GroupId> ancestors = ancestors_between(earlier, later);
    const auto by_rank = [&](GroupId a, GroupId b) { return rank_[a] < rank_[b]; };
    std::sort(ancestors.begin(), ancestors.end(), by_rank);
    std::sort(descendants_.begin(), descendants_.end(), by_rank);
    std::vector<GroupId> sequence = ancestors;
    sequence.push_back(earlier);
    sequence.insert(sequence.end(), descendants_.begin(), descendants_.end());
    std::vector<uint32_t> ranks;
    ranks.reserve(sequence.size());
    for (const GroupId group : sequence)
      ranks.push_back(rank_[group]);
    ranks.push_back(rank_[later]);
    std::sort(ranks.begin(), ranks.end());
    // One rank more than groups: the merged group may take either of two.
    for (size_t i = 0; i < sequence.size(); ++i)
      rank_[sequence[i]] = ranks[i < ancestors.size() ? i : i + 1];
  }
  for (const NodeId member : members_[later])
    group_of_[member] = earlier;
  members_[earlier].insert(members_[earlier].end(), members_[later].begin(), members_[later].end());
  members_[later].clear();
  descendants_.clear();
}

void GroupGraph::renumber(const std::vector<GroupId> &order) {
  for (uint32_t position = 0; position < order.size(); ++position)
    rank_[order[position]] = position;
}

} // namespace tsc::scheduler
