#include "scheduler/fusion.h"
#include "scheduler/measure_fusion.h"
#include "scheduler/steps.h"
#include "scheduler/topological_order.h"
#include "scheduler/turn_loops.h"

#include <algorithm>
#include <unordered_map>

namespace tsc::scheduler {

namespace {

/// Refusals kept for `tsc explain`: enough for any model, bounded for graphs with hundreds of
/// thousands of nodes.
constexpr size_t kMaxRefusals = 1 << 17;

class FusionRounds {
public:
  explicit FusionRounds(State &state) : fusion_(state) {
    for (const NodeId id : state.order)
      if (fusion_.graph.group_of(id) == id)
        order_.push_back(id);
  }

  void run() {
    for (int64_t round = 1; round <= fusion_.state.policy().max_fusion_rounds; ++round) {
      fusion_.round = static_cast<int>(round);
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
      Verdict verdict = judge_and_turn(fusion_, first, second);
      if (verdict.refusal == Refusal::none)
        measure(first, second, verdict);
      if (verdict.turned && verdict.refusal == Refusal::none)
        keep(*verdict.turned);
      record(first, second, verdict);
      if (verdict.refusal == Refusal::none) {
        merge(first, second, std::move(verdict));
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
    decision.turned = verdict.turned ? verdict.turned->text : "";
    fusion_.state.schedule.decisions.push_back(std::move(decision));
  }

  void measure(GroupId first, GroupId second, Verdict &verdict) {
    const auto turn = [&] {
      if (verdict.turned)
        exchange(fusion_, *verdict.turned);
    };
    if (!fusion_.state.options.fusion_timer || fusion_.group(first).is_list() ||
        fusion_.group(second).is_list())
      return; // a launch of several kernels is no candidate for a clock that times one
    turn();
    if (const auto measured = measure_fusion(fusion_, first, second, verdict.nests[0]))
      refuse_if_slower(*measured, verdict);
    turn();
  }

  /// Logs of the time before fusion print loops as they were.
  void keep(TurnedLoops &turned) {
    for (const NodeId member : fusion_.graph.members(turned.group)) {
      Node &node = fusion_.state.schedule.nodes[member];
      if (!node.before_fusion)
        node.before_fusion = std::make_shared<const LoopsBeforeFusion>(
            LoopsBeforeFusion{node.body, node.reads, node.writes});
    }
    exchange(fusion_, turned);
  }

  void merge(GroupId first, GroupId second, Verdict verdict) {
    merge_work(fusion_, first, second, std::move(verdict));
    fusion_.groups[first].changed_in_round = fusion_.round + 1;
    fusion_.groups[second] = WorkGroup{};
    fusion_.groups[second].alive = false;
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
      if (!work.is_list())
        schedule.groups.push_back(finished(work, fusion_.graph.members(id)));
      for (const WorkGroup &element : work.elements) {
        schedule.groups.push_back(finished(element, element.members));
        schedule.groups.back().list = work.list;
      }
    }
  }
  static Group finished(const WorkGroup &work, const std::vector<NodeId> &members) {
    Group group;
    group.members = members;
    group.node_class = work.node_class;
    group.numel = work.numel;
    group.reduction_numel = work.reduction_numel;
    group.iteration_sizes = work.nest.iteration;
    group.reduction_sizes = work.nest.reduction;
    return group;
  }
};

} // namespace

void fuse_nodes(State &state) { FusionRounds(state).run(); }

} // namespace tsc::scheduler
