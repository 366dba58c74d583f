// Orders of the groups that keep less memory alive: three are tried, the best is taken if it is
// better than the one that is there.
#include "scheduler/list_schedule.h"
#include "scheduler/memory_model.h"
#include "scheduler/steps.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <queue>
#include <set>

namespace tsc::scheduler {

namespace {

using Order = std::vector<uint32_t>; // of groups

/// What waits for what, and groups with side effects one after the other as they are now.
WaitingGroups find_constraints(const State &state) {
  WaitingGroups waiting = find_waiting(state);
  uint32_t last = ir::kNone;
  const std::vector<Group> &groups = state.schedule.groups;
  for (uint32_t i = 0; i < groups.size(); ++i) {
    const bool acts = std::any_of(groups[i].members.begin(), groups[i].members.end(),
                                  [&](NodeId id) { return state.operation(id).has_side_effects; });
    if (!acts)
      continue;
    if (last != ir::kNone) {
      waiting.after[last].push_back(i);
      ++waiting.count[i];
    }
    last = i;
  }
  return waiting;
}

/// Least peak first: of the groups that may run, those that raise the peak least; of these, the one
/// after which least is alive.
class LeastPeakFirst {
public:
  LeastPeakFirst(const MemoryModel &model, const WaitingGroups &waiting)
      : model_(model), waiting_(waiting), left_(waiting.count), need_(model.made_bytes),
        growth_(model.made_bytes), alive_storage_(model.storages.size(), false),
        ready_(left_.size(), false) {
    for (const MemoryModel::Storage &storage : model.storages) {
      uses_left_.push_back(static_cast<uint32_t>(storage.users.size()));
      uint32_t mixed = 0;
      for (const uint32_t user : storage.users)
        mixed ^= user;
      last_user_.push_back(mixed);
    }
    for (uint32_t i = 0; i < model.storages.size(); ++i)
      free_after_last(i);
  }

  Order run() {
    for (uint32_t group = 0; group < left_.size(); ++group)
      if (left_[group] == 0)
        add(group);
    Order order;
    order.reserve(left_.size());
    while (!by_growth_.empty()) {
      const uint32_t group = choose();
      order.push_back(group);
      finish(group);
    }
    return order;
  }

private:
  /// Groups looked at for one that stays below the peak, before that with the least new memory is
  /// taken: bounds the time a step takes.
  static constexpr int kMostLooks = 16;

  const MemoryModel &model_;
  const WaitingGroups &waiting_;
  std::vector<uint32_t> left_;  // by group: producers that have not run
  std::vector<int64_t> need_;   // by group: bytes that it would allocate now
  std::vector<int64_t> growth_; // by group: bytes alive after it, less those before
  std::vector<bool> alive_storage_;
  std::vector<bool> ready_;         // by group
  std::vector<uint32_t> uses_left_; // by storage
  std::vector<uint32_t> last_user_; // by storage: exclusive or of the users left
  std::set<std::pair<int64_t, uint32_t>> by_growth_, by_need_; // of those ready
  int64_t alive_ = 0, peak_ = 0;

  void add(uint32_t group) {
    ready_[group] = true;
    by_growth_.emplace(growth_[group], group);
    by_need_.emplace(need_[group], group);
  }
  void remove(uint32_t group) {
    by_growth_.erase({growth_[group], group});
    by_need_.erase({need_[group], group});
    ready_[group] = false;
  }
  /// Changes what is known of a group, wherever it stands.
  void adjust(uint32_t group, int64_t need, int64_t growth) {
    const bool ready = ready_[group];
    if (ready)
      remove(group);
    need_[group] += need;
    growth_[group] += growth;
    if (ready)
      add(group);
  }
  /// The first maker allocates: the others need not.
  void allocate(uint32_t storage, uint32_t maker) {
    if (alive_storage_[storage])
      return;
    alive_storage_[storage] = true;
    const int64_t bytes = model_.storages[storage].bytes;
    for (const uint32_t other : model_.storages[storage].makers)
      if (other != maker)
        adjust(other, -bytes, -bytes);
  }
  /// A storage with one user left dies with it.
  void free_after_last(uint32_t storage) {
    if (uses_left_[storage] != 1 || model_.storages[storage].stays)
      return;
    adjust(last_user_[storage], 0, -model_.storages[storage].bytes);
  }
  uint32_t choose() const {
    int looks = 0;
    for (const auto &[growth, group] : by_growth_) {
      if (alive_ + need_[group] <= peak_)
        return group;
      if (++looks == kMostLooks)
        break;
    }
    return by_need_.begin()->second;
  }
  void finish(uint32_t group) {
    remove(group);
    peak_ = std::max(peak_, alive_ + need_[group]);
    alive_ += growth_[group];
    for (const uint32_t storage : model_.makes[group])
      allocate(storage, group);
    for (const uint32_t storage : model_.uses[group]) {
      --uses_left_[storage];
      last_user_[storage] ^= group;
      free_after_last(storage);
    }
    for (const uint32_t next : waiting_.after[group])
      if (--left_[next] == 0)
        add(next);
  }
};

Order least_peak_first(const MemoryModel &model, const WaitingGroups &waiting) {
  return LeastPeakFirst(model, waiting).run();
}

/// Breadth first: whoever has been able to run for longest runs next, so that what a group makes is
/// used up by all its readers before theirs are looked at.
Order breadth_first(const MemoryModel &, const WaitingGroups &waiting) {
  std::vector<uint32_t> left = waiting.count;
  Order order;
  order.reserve(left.size());
  for (uint32_t group = 0; group < left.size(); ++group)
    if (left[group] == 0)
      order.push_back(group);
  for (size_t i = 0; i < order.size(); ++i) {
    for (const uint32_t next : waiting.after[order[i]])
      if (--left[next] == 0)
        order.push_back(next);
  }
  return order;
}

/// Depth first: from the groups that nothing waits for back to what they need, the branch first
/// that needs more beyond what it leaves alive (Sethi and Ullman's order, exact for trees).
class DepthFirst {
public:
  DepthFirst(const MemoryModel &model, const WaitingGroups &waiting)
      : before_(waiting.after.size()), need_(waiting.after.size(), 0),
        seen_(waiting.after.size(), false), made_(model.made_bytes) {
    for (uint32_t group = 0; group < waiting.after.size(); ++group)
      for (const uint32_t next : waiting.after[group])
        before_[next].push_back(group);
    for (const uint32_t group : breadth_first(model, waiting))
      weigh(group);
    for (uint32_t group = 0; group < waiting.after.size(); ++group)
      if (waiting.after[group].empty())
        sinks_.push_back(group);
  }

  Order run() {
    Order order;
    for (const uint32_t sink : sinks_)
      visit(sink, order);
    return order;
  }

private:
  std::vector<std::vector<uint32_t>> before_; // by group: what it waits for, best first
  std::vector<int64_t> need_;                 // by group: most bytes alive while its tree runs
  std::vector<bool> seen_;
  const std::vector<int64_t> &made_;
  std::vector<uint32_t> sinks_;

  void weigh(uint32_t group) {
    std::vector<uint32_t> &before = before_[group];
    std::stable_sort(before.begin(), before.end(), [&](uint32_t a, uint32_t b) {
      return need_[a] - made_[a] > need_[b] - made_[b];
    });
    int64_t held = 0;
    for (const uint32_t producer : before) {
      need_[group] = std::max(need_[group], held + need_[producer]);
      held += made_[producer];
    }
    need_[group] = std::max(need_[group], held + made_[group]);
  }

  void visit(uint32_t sink, Order &order) {
    std::vector<std::pair<uint32_t, size_t>> stack;
    const auto open = [&](uint32_t group) {
      if (!seen_[group]) {
        seen_[group] = true;
        stack.emplace_back(group, 0);
      }
    };
    open(sink);
    while (!stack.empty()) {
      auto &[group, next] = stack.back();
      if (next == before_[group].size()) {
        order.push_back(group);
        stack.pop_back();
      } else {
        open(before_[group][next++]);
      }
    }
  }
};

Order depth_first(const MemoryModel &model, const WaitingGroups &waiting) {
  return DepthFirst(model, waiting).run();
}

/// The same, but who waits for nothing (fills, casts of weights) runs right before the first that
/// waits for it: it has no memory to give back, so nothing is alive for longer.
Order with_late_sources(const Order &order, const WaitingGroups &waiting) {
  std::vector<size_t> place(order.size());
  for (size_t i = 0; i < order.size(); ++i)
    place[order[i]] = i;
  std::vector<std::vector<uint32_t>> before(order.size()); // by place
  for (const uint32_t group : order) {
    size_t at = place[group];
    if (waiting.count[group] == 0 && !waiting.after[group].empty()) {
      at = order.size();
      for (const uint32_t next : waiting.after[group])
        at = std::min(at, place[next]);
    }
    if (at != place[group])
      before[at].push_back(group);
  }
  Order result;
  result.reserve(order.size());
  std::vector<bool> moved(order.size(), false);
  for (const std::vector<uint32_t> &groups : before)
    for (const uint32_t group : groups)
      moved[group] = true;
  for (size_t i = 0; i < order.size(); ++i) {
    result.insert(result.end(), before[i].begin(), before[i].end());
    if (!moved[order[i]])
      result.push_back(order[i]);
  }
  return result;
}

struct Heuristic {
  std::string_view name;
  Order (*function)(const MemoryModel &, const WaitingGroups &);
};
constexpr Heuristic kHeuristics[] = {
    {"least peak first", least_peak_first},
    {"breadth first", breadth_first},
    {"depth first", depth_first},
};

} // namespace

void reorder_for_peak_memory(State &state) {
  std::vector<Group> &groups = state.schedule.groups;
  if (!state.policy().reorder_for_peak_memory || groups.size() < 3 || !state.lists.empty())
    return; // two groups have one order, or share nothing; lists stay where fusion put them
  const MemoryModel model = make_memory_model(state);
  const WaitingGroups waiting = find_constraints(state);
  Order best(groups.size());
  for (uint32_t i = 0; i < best.size(); ++i)
    best[i] = i;
  MemoryOrder &result = state.schedule.memory_order;
  result.bytes_before = result.bytes = peak_bytes(model, best);
  result.heuristic = "fusion's order";
  if (Order late = with_late_sources(best, waiting); peak_bytes(model, late) < result.bytes) {
    result.bytes = peak_bytes(model, late);
    result.heuristic = "fusion's order, what waits for nothing late";
    best = std::move(late);
  }
  for (const Heuristic &heuristic : kHeuristics) {
    Order order = with_late_sources(heuristic.function(model, waiting), waiting);
    support::require(order.size() == groups.size(), "scheduler", "groups wait for each other");
    const int64_t bytes = peak_bytes(model, order);
    if (bytes >= result.bytes)
      continue;
    result.bytes = bytes;
    result.heuristic = heuristic.name;
    best = std::move(order);
  }
  if (result.bytes == result.bytes_before)
    return;
  std::vector<Group> ordered;
  ordered.reserve(groups.size());
  for (const uint32_t group : best)
    ordered.push_back(std::move(groups[group]));
  groups = std::move(ordered);
}

} // namespace tsc::scheduler
