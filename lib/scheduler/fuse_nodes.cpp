#include "scheduler/fusion.h"
#include "scheduler/steps.h"
#include "scheduler/topological_order.h"

#include <algorithm>
#include <unordered_map>

namespace tsc::scheduler {

namespace {

constexpr int kMaxRounds = 10;
/// Refusals kept for `tsc explain`: enough for any model, bounded for graphs with hundreds of
/// thousands of nodes.
constexpr size_t kMaxRefusals = 1 << 17;

std::vector<uint32_t> united(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b) {
  std::vector<uint32_t> all;
  all.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

class FusionRounds {
public:
  explicit FusionRounds(State &state) : fusion_(state) {
    for (const NodeId id : state.order) {
      if (fusion_.graph.group_of(id) == id)
        order_.push_back(id);
    }
  }

  void run() {
    for (int round = 1; round <= kMaxRounds; ++round) {
      fusion_.round = round;
      if (!fuse_once())
        break;
      sort_groups();
    }
    write_groups();
  }

private:
  Fusion fusion_;
  std::vector<GroupId> order_; // groups alive, in execution order
  /// Refused pairs, and how many members they had then: judged anew only when one has grown.
  std::unordered_map<uint64_t, size_t> refused_;

  static uint64_t pair_key(GroupId a, GroupId b) { return (uint64_t{a} << 32) | b; }
  size_t size_of(GroupId a, GroupId b) const {
    return fusion_.graph.members(a).size() + fusion_.graph.members(b).size();
  }

  /// True if any two were fused.
  bool fuse_once() {
    bool fused = false;
    const auto refuse = [&](GroupId a, GroupId b, const Verdict &v) { record(a, b, v); };
    for (const Candidate &candidate : find_candidates(fusion_, order_, refuse)) {
      GroupId first = fusion_.graph.group_of(candidate.first);
      GroupId second = fusion_.graph.group_of(candidate.second);
      if (first == second)
        continue;
      if (fusion_.graph.rank(first) > fusion_.graph.rank(second))
        std::swap(first, second);
      const auto refused = refused_.find(pair_key(first, second));
      if (refused != refused_.end() && refused->second == size_of(first, second))
        continue;
      Verdict verdict = judge(fusion_, first, second);
      record(first, second, verdict);
      if (verdict.refusal == Refusal::none) {
        merge(first, second, std::move(verdict.nest));
        fused = true;
      }
    }
    return fused;
  }

  void record(GroupId first, GroupId second, const Verdict &verdict) {
    if (verdict.refusal != Refusal::none) {
      const uint64_t key = pair_key(first, second);
      const auto known = refused_.find(key);
      if (known != refused_.end()) {
        known->second = size_of(first, second);
        return; // one reason a pair is enough
      }
      if (refused_.size() >= kMaxRefusals)
        return;
      refused_.emplace(key, size_of(first, second));
    }
    FusionDecision decision;
    decision.first = first;
    decision.second = second;
    decision.refusal = verdict.refusal;
    decision.shared_bytes = verdict.shared_bytes;
    decision.round = fusion_.round;
    decision.detail = explain(fusion_, first, second, verdict);
    fusion_.state.schedule.decisions.push_back(std::move(decision));
  }

  void merge(GroupId first, GroupId second, LoopNest nest) {
    WorkGroup &a = fusion_.groups[first], &b = fusion_.groups[second];
    const WorkGroup &whole = a.reduces ? a : b;
    const Expr numel = whole.numel, reduction_numel = whole.reduction_numel;
    a.numel = numel;
    a.reduction_numel = reduction_numel;
    a.reduces = a.reduces || b.reduces;
    a.nest = std::move(nest);
    a.dependencies = united(a.dependencies, b.dependencies);
    a.buffers = united(a.buffers, b.buffers);
    a.min_order = std::min(a.min_order, b.min_order);
    a.max_order = std::max(a.max_order, b.max_order);
    a.changed_in_round = fusion_.round + 1;
    b = WorkGroup{};
    b.alive = false;
    fusion_.graph.merge(first, second);
  }

  /// Groups by their first node's place, then producers before consumers.
  void sort_groups() {
    const auto gone = [&](GroupId id) { return !fusion_.group(id).alive; };
    order_.erase(std::remove_if(order_.begin(), order_.end(), gone), order_.end());
    std::stable_sort(order_.begin(), order_.end(), [&](GroupId a, GroupId b) {
      return fusion_.group(a).min_order < fusion_.group(b).min_order;
    });
    order_ = topological_order(order_, fusion_.groups.size(), [&](GroupId id) {
      std::vector<NodeId> producers = producers_by_name(fusion_.state, fusion_.graph.members(id));
      for (NodeId &node : producers)
        node = fusion_.graph.group_of(node);
      return producers;
    });
    fusion_.graph.renumber(order_);
  }

  void write_groups() {
    Schedule &schedule = fusion_.state.schedule;
    schedule.groups.clear();
    for (const GroupId id : order_) {
      const WorkGroup &work = fusion_.group(id);
      Group group;
      group.members = fusion_.graph.members(id);
      group.node_class = work.node_class;
      group.numel = work.numel;
      group.reduction_numel = work.reduction_numel;
      group.iteration_sizes = work.nest.iteration;
      group.reduction_sizes = work.nest.reduction;
      schedule.groups.push_back(std::move(group));
    }
  }
};

} // namespace

void fuse_nodes(State &state) { FusionRounds(state).run(); }

} // namespace tsc::scheduler
