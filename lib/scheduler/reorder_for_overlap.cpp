// Computation beside collectives, as far as estimated times say that there is room for it.
#include "scheduler/cost.h"
#include "scheduler/list_schedule.h"
#include "scheduler/steps.h"
#include "scheduler/storages.h"

#include "support/diagnostic.h"

#include <algorithm>
#include <queue>
#include <set>
#include <tuple>

namespace tsc::scheduler {

namespace {

struct Times {
  double computing = 0, communicating = 0; // nanoseconds
  bool waits = false;                      // holds a wait
};

/// Runs the groups on two imagined streams, one that computes and one that communicates.
class Overlap {
public:
  explicit Overlap(State &state) : state_(state), waiting_(find_waiting(state)) {
    const std::vector<bool> is_aliased = find_aliased(state.module);
    std::vector<uint32_t> group_of(state.schedule.nodes.size(), ir::kNone);
    const std::vector<Group> &groups = state.schedule.groups;
    for (uint32_t i = 0; i < groups.size(); ++i)
      for (const NodeId member : groups[i].members)
        group_of[member] = i;
    for (uint32_t i = 0; i < groups.size(); ++i)
      times_.push_back(times_of(groups[i], is_aliased, group_of, i));
    arrival_.assign(groups.size(), 0);
  }

  std::vector<uint32_t> run() {
    for (uint32_t i = 0; i < times_.size(); ++i)
      if (waiting_.count[i] == 0)
        add(i);
    std::vector<uint32_t> order;
    order.reserve(times_.size());
    while (!ready_.empty() || !parked_.empty()) {
      const uint32_t group = next();
      order.push_back(group);
      start(group);
    }
    return order;
  }

private:
  State &state_;
  WaitingGroups waiting_;
  std::vector<Times> times_;
  std::vector<double> arrival_; // by group: when what it waits for has come over the links
  double now_ = 0, links_free_ = 0;
  std::set<uint32_t> ready_; // by place in the present order
  std::priority_queue<std::pair<double, uint32_t>, std::vector<std::pair<double, uint32_t>>,
                      std::greater<>>
      parked_; // waits, by when their collectives are done

  Times times_of(const Group &group, const std::vector<bool> &is_aliased,
                 const std::vector<uint32_t> &group_of, uint32_t place) const {
    Times times;
    for (const NodeId member : group.members) {
      Group part = group_of_one(state_.schedule, member);
      const std::optional<ir::Library> library = library_of(state_, member);
      if (library == ir::Library::wait)
        times.waits = true;
      if (library)
        (ir::is_collective(*library) ? times.communicating : times.computing) +=
            cost_of(state_.module, state_.schedule, part, *state_.options.target).nanoseconds;
    }
    if (group.node_class != NodeClass::scheduler)
      return times;
    Group kernel = group;
    for (const NodeId member : group.members) {
      for (const BufferId output : state_.operation(member).outputs)
        if (stays_inside(state_, is_aliased, output,
                         [&](NodeId node) { return group_of[node] == place; }))
          kernel.internal_buffers.push_back(output);
    }
    std::sort(kernel.internal_buffers.begin(), kernel.internal_buffers.end());
    times.computing =
        cost_of(state_.module, state_.schedule, kernel, *state_.options.target).nanoseconds;
    return times;
  }

  void add(uint32_t group) {
    if (times_[group].waits)
      parked_.emplace(arrival_[group], group);
    else
      ready_.insert(group);
  }

  /// A wait as soon as its collective is done, or if nothing else can run; else the first in the
  /// present order.
  uint32_t next() {
    if (!parked_.empty() && (parked_.top().first <= now_ || ready_.empty())) {
      const auto [arrival, group] = parked_.top();
      parked_.pop();
      now_ = std::max(now_, arrival);
      return group;
    }
    const uint32_t group = *ready_.begin();
    ready_.erase(ready_.begin());
    return group;
  }

  void start(uint32_t group) {
    const Times &times = times_[group];
    now_ += times.computing;
    double done = arrival_[group]; // a group that passes on what it has not waited for
    if (times.communicating > 0) {
      links_free_ = std::max(now_, links_free_) + times.communicating;
      done = links_free_;
    }
    for (const uint32_t after : waiting_.after[group]) {
      if (!times.waits)
        arrival_[after] = std::max(arrival_[after], done);
      if (--waiting_.count[after] == 0)
        add(after);
    }
  }
};

} // namespace

void reorder_for_overlap(State &state) {
  if (!state.has_collectives || !state.policy().reorder_for_overlap || !state.options.target)
    return;
  std::vector<Group> &groups = state.schedule.groups;
  const std::vector<uint32_t> order = Overlap(state).run();
  support::require(order.size() == groups.size(), "scheduler", "groups wait for each other");
  std::vector<Group> ordered;
  ordered.reserve(groups.size());
  for (const uint32_t group : order)
    ordered.push_back(std::move(groups[group]));
  groups = std::move(ordered);
}

} // namespace tsc::scheduler
