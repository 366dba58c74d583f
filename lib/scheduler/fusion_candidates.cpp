#include "scheduler/fusion.h"

#include <algorithm>

namespace tsc::scheduler {

namespace {

/// Pairs that one buffer may give: with more readers each looks at fewer neighbours.
constexpr size_t kMaxPairsPerBuffer = 1 << 20;
constexpr size_t kMinNeighbours = 8;

struct BufferUse {
  std::vector<uint32_t> positions; // of the groups that use it, ascending
  uint32_t discovery = UINT32_MAX;
};

struct Neighbour {
  uint32_t position;
  uint32_t discovery; // of the first buffer that makes them neighbours
};

class CandidateFinder {
public:
  CandidateFinder(Fusion &fusion, const std::vector<GroupId> &order)
      : fusion_(fusion), uses_(fusion.state.module.buffers.size()) {
    for (const GroupId id : order)
      if (fusion.group(id).node_class == NodeClass::scheduler)
        groups_.push_back(id);
    uint32_t discovered = 0;
    for (uint32_t position = 0; position < groups_.size(); ++position) {
      for (const BufferId buffer : fusion.group(groups_[position]).buffers) {
        BufferUse &use = uses_[buffer];
        if (use.positions.empty())
          use.discovery = discovered++;
        use.positions.push_back(position);
      }
    }
    next_.assign(uses_.size(), 0);
  }

  template <class Visit> void for_each_pair(const Visit &visit) {
    for (uint32_t position = 0; position < groups_.size(); ++position)
      for (const Neighbour &neighbour : neighbours_of(position))
        visit(groups_[position], groups_[neighbour.position], neighbour.discovery);
  }

private:
  Fusion &fusion_;
  std::vector<GroupId> groups_;
  std::vector<BufferUse> uses_;  // by buffer
  std::vector<uint32_t> next_;   // by buffer: where in `positions` the group at hand stands
  std::vector<Neighbour> found_; // kept between calls for its memory

  size_t window(const BufferUse &use) const {
    const size_t fair = kMaxPairsPerBuffer / use.positions.size();
    return std::min(fusion_.state.policy().max_candidates_per_buffer,
                    std::max(fair, kMinNeighbours));
  }

  /// Later groups that share a buffer with the one at `position`, ascending. Positions come in
  /// order.
  const std::vector<Neighbour> &neighbours_of(uint32_t position) {
    found_.clear();
    for (const BufferId buffer : fusion_.group(groups_[position]).buffers) {
      const BufferUse &use = uses_[buffer];
      const size_t begin = ++next_[buffer];
      const size_t end = std::min(use.positions.size(), begin + window(use));
      for (size_t i = begin; i < end; ++i)
        found_.push_back({use.positions[i], use.discovery});
    }
    const auto before = [](const Neighbour &a, const Neighbour &b) {
      return a.position != b.position ? a.position < b.position : a.discovery < b.discovery;
    };
    const auto same = [](const Neighbour &a, const Neighbour &b) {
      return a.position == b.position;
    };
    std::sort(found_.begin(), found_.end(), before);
    found_.erase(std::unique(found_.begin(), found_.end(), same), found_.end());
    return found_;
  }
};

} // namespace

std::vector<Candidate>
find_candidates(Fusion &fusion, const std::vector<GroupId> &order,
                const std::function<void(GroupId, GroupId, const Verdict &)> &refuse) {
  std::vector<Candidate> candidates;
  CandidateFinder finder(fusion, order);
  finder.for_each_pair([&](GroupId first, GroupId second, uint32_t discovery) {
    const WorkGroup &a = fusion.group(first), &b = fusion.group(second);
    if (std::max(a.changed_in_round, b.changed_in_round) < fusion.round)
      return; // judged before, and fusing others makes nothing possible
    const Verdict verdict = judge_and_turn(fusion, first, second);
    if (verdict.refusal != Refusal::none) {
      refuse(first, second, verdict);
      return;
    }
    candidates.push_back({first, second, verdict.shared_bytes,
                          static_cast<uint32_t>(Fusion::distance(a, b)), discovery,
                          a.reduces == b.reduces});
  });
  const auto better = [](const Candidate &a, const Candidate &b) {
    if (a.same_kind != b.same_kind)
      return a.same_kind;
    if (a.shared_bytes != b.shared_bytes)
      return a.shared_bytes > b.shared_bytes;
    if (a.distance != b.distance)
      return a.distance < b.distance;
    return a.discovery < b.discovery; // else as found
  };
  std::stable_sort(candidates.begin(), candidates.end(), better);
  return candidates;
}

} // namespace tsc::scheduler
