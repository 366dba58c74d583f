#include "scheduler/collective_memory.h"

#include "scheduler/cost.h"
#include "scheduler/memory_model.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tsc::scheduler {

namespace {

/// Which groups use up what collectives yield.
class Results {
public:
  Results(const State &state, const std::vector<uint32_t> &collectives)
      : model_(make_memory_model(state)), before_(state.schedule.groups.size()),
        newest_(before_.size(), 0) {
    const WaitingGroups waiting = find_waiting(state);
    for (uint32_t group = 0; group < before_.size(); ++group)
      for (const uint32_t next : waiting.after[group])
        before_[next].push_back(group);
    for (uint32_t i = 0; i < collectives.size(); ++i)
      newest_[collectives[i]] = i + 1;
    for (uint32_t group = 0; group < before_.size(); ++group)
      for (const uint32_t earlier : before_[group])
        newest_[group] = std::max(newest_[group], newest_[earlier]);
  }

  /// What a group waits for.
  const std::vector<uint32_t> &before(uint32_t group) const { return before_[group]; }
  /// The number of the last collective among all that a group waits for, or that it is.
  std::optional<uint32_t> newest(uint32_t group) const {
    return newest_[group] == 0 ? std::nullopt : std::optional<uint32_t>(newest_[group] - 1);
  }
  /// Bytes that a group uses as the last one, less those that it makes.
  int64_t freed_bytes(uint32_t group) const {
    int64_t bytes = -model_.made_bytes[group];
    for (const uint32_t number : model_.uses[group]) {
      const MemoryModel::Storage &storage = model_.storages[number];
      const std::vector<uint32_t> &makers = storage.makers;
      if (storage.users.back() == group && !storage.stays &&
          std::find(makers.begin(), makers.end(), group) == makers.end())
        bytes += storage.bytes;
    }
    return bytes;
  }
  /// Gives a group, and all that it waits for, at most this priority.
  void raise(uint32_t group, Priority priority, std::vector<Priority> &priorities) const {
    std::vector<uint32_t> open = {group};
    while (!open.empty()) {
      const uint32_t next = open.back();
      open.pop_back();
      if (priorities[next].first <= priority.first)
        continue;
      priorities[next] = priority;
      open.insert(open.end(), before_[next].begin(), before_[next].end());
    }
  }

private:
  const MemoryModel model_;
  std::vector<std::vector<uint32_t>> before_;
  std::vector<uint32_t> newest_; // 1 + the number, or 0
};

/// By group: bytes alive while it runs, in the present order.
std::vector<int64_t> alive_now(const State &state) {
  std::vector<uint32_t> order(state.schedule.groups.size());
  std::iota(order.begin(), order.end(), 0U);
  return alive_bytes(make_memory_model(state), order);
}

/// Of what all ranks of a collective have together, or each in the end; sizes that are not known
/// count as nothing.
double moved_bytes(const State &state, uint32_t group) {
  double bytes = 0;
  for (const NodeId member : state.schedule.groups[group].members) {
    const auto *call = std::get_if<ir::Extern>(&state.operation(member).kind);
    if (call == nullptr || !ir::is_collective(call->library))
      continue;
    const int64_t elements = symbolic::numel(call->inputs[0].layout.sizes).as_integer().value_or(0);
    bytes += static_cast<double>(elements) *
             static_cast<double>(tensor::size_in_bytes(call->inputs[0].dtype)) *
             static_cast<double>(call->library == ir::Library::all_gather ? call->group.size : 1);
  }
  return bytes;
}

} // namespace

bool communicates(const State &state, const Group &group) {
  return std::any_of(group.members.begin(), group.members.end(), [&](NodeId id) {
    const std::optional<ir::Library> library = library_of(state, id);
    return library && ir::is_collective(*library);
  });
}

bool use_results_early(const State &state, const std::vector<uint32_t> &collectives,
                       std::vector<Priority> &priorities) {
  const Results results(state, collectives);
  std::vector<std::pair<uint32_t, uint32_t>> users; // the collective's number, and the group
  for (uint32_t group = 0; group < priorities.size(); ++group)
    if (const std::optional<uint32_t> newest = results.newest(group);
        newest && *newest + 2 < collectives.size() && collectives[*newest + 2] < group &&
        priorities[group].first == kNoCollective && results.freed_bytes(group) > 0)
      users.emplace_back(*newest, group);
  if (users.empty())
    return false;
  std::sort(users.begin(), users.end());
  std::vector<int64_t> alive = alive_now(state);
  // What is needed before any of them could run is needed anyway.
  const int64_t needed =
      *std::max_element(alive.begin(), alive.begin() + collectives[users[0].first + 2] + 1);
  bool any = false;
  for (const auto &[number, group] : users) {
    const auto begin = alive.begin() + collectives[number + 2], end = alive.begin() + group;
    if (*std::max_element(begin, end) <= needed)
      continue;
    std::for_each(begin, end,
                  [&, freed = results.freed_bytes(group)](int64_t &bytes) { bytes -= freed; });
    results.raise(group, {number + 2, 1}, priorities);
    any = true;
  }
  for (uint32_t i = 0; any && i < collectives.size(); ++i) { // behind what was raised before it
    for (const uint32_t earlier : results.before(collectives[i]))
      if (priorities[earlier].first == i && !communicates(state, state.schedule.groups[earlier]))
        priorities[earlier].second = 2;
    priorities[collectives[i]].second = 3;
  }
  return any;
}

void sink_free_kernels(State &state) {
  const auto nearly = [](int64_t bytes) { return bytes / 4 * 3; };
  std::vector<Group> &groups = state.schedule.groups;
  const WaitingGroups waiting = find_waiting(state);
  const std::vector<int64_t> alive = alive_now(state);
  const int64_t full = nearly(alive.empty() ? 0 : *std::max_element(alive.begin(), alive.end()));
  std::vector<std::vector<uint32_t>> sunk(groups.size()); // by group: what stands right before it
  std::vector<bool> is_sunk(groups.size(), false);
  for (uint32_t i = 0; i < groups.size(); ++i) {
    const bool acts = std::any_of(groups[i].members.begin(), groups[i].members.end(),
                                  [&](NodeId id) { return state.operation(id).has_side_effects; });
    if (waiting.count[i] != 0 || waiting.after[i].empty() || acts ||
        groups[i].node_class != NodeClass::scheduler)
      continue;
    const uint32_t user = *std::min_element(waiting.after[i].begin(), waiting.after[i].end());
    is_sunk[i] = std::any_of(alive.begin() + i, alive.begin() + user,
                             [&](int64_t bytes) { return bytes >= full; });
    if (is_sunk[i])
      sunk[user].push_back(i);
  }
  std::vector<Group> ordered;
  ordered.reserve(groups.size());
  for (uint32_t i = 0; i < groups.size(); ++i) {
    if (is_sunk[i])
      continue;
    for (const uint32_t kernel : sunk[i])
      ordered.push_back(std::move(groups[kernel]));
    ordered.push_back(std::move(groups[i]));
  }
  groups = std::move(ordered);
}

namespace {

class GatherStarts {
public:
  explicit GatherStarts(const State &state)
      : state_(state), groups_(state.schedule.groups), waiting_(find_waiting(state)),
        collectives_(find_collectives()), results_(state, collectives_) {
    for (uint32_t i = 0; i < groups_.size(); ++i)
      priorities_.push_back({kStep * i, 0});
  }

  /// Nothing if all begin when they should.
  std::optional<std::vector<Priority>> run() {
    bool any = false;
    for (size_t i = 0; i + 1 < collectives_.size(); ++i)
      any |= share(i);
    return any ? std::optional(std::move(priorities_)) : std::nullopt;
  }

private:
  static constexpr uint64_t kStep = 4; // priorities between two groups
  const State &state_;
  const std::vector<Group> &groups_;
  const WaitingGroups waiting_;
  const std::vector<uint32_t> collectives_;
  const Results results_;
  std::vector<Priority> priorities_;

  static uint32_t first_of(const std::vector<uint32_t> &groups) {
    return *std::min_element(groups.begin(), groups.end());
  }
  std::vector<uint32_t> find_collectives() const {
    std::vector<uint32_t> found;
    for (uint32_t i = 0; i < groups_.size(); ++i)
      if (communicates(state_, groups_[i]))
        found.push_back(i);
    return found;
  }
  bool is_alone(uint32_t group, ir::Library library) const {
    return groups_[group].members.size() == 1 &&
           library_of(state_, groups_[group].members[0]) == library;
  }
  /// The first group that waits for a collective, but for other ones.
  uint32_t first_user(uint32_t collective) const {
    auto first = static_cast<uint32_t>(groups_.size());
    for (const uint32_t user : waiting_.after[collective])
      if (!communicates(state_, groups_[user]))
        first = std::min(first, user);
    return first;
  }
  double nanoseconds(uint32_t group) const {
    if (communicates(state_, groups_[group]))
      return 0;
    if (!state_.options.target)
      return 1; // all the same
    return cost_of(state_.module, state_.schedule, groups_[group], *state_.options.target)
        .nanoseconds;
  }

  /// Of collective number `number` and the next one.
  bool share(size_t number) {
    const uint32_t reduction = collectives_[number], gather = collectives_[number + 1];
    if (!is_alone(reduction, ir::Library::reduce_scatter) ||
        !is_alone(gather, ir::Library::all_gather))
      return false;
    const uint32_t used = first_user(reduction);
    if (used < gather)
      return false; // the reduction is over when the gather begins
    uint32_t end = first_user(gather);
    if (number + 2 < collectives_.size())
      end = std::min(end, collectives_[number + 2]);
    const double own = moved_bytes(state_, reduction), both = own + moved_bytes(state_, gather);
    const uint32_t place = std::min(used, after_share(reduction, end, both > 0 ? own / both : 0));
    if (place <= gather)
      return false;
    const uint64_t start = kStep * place;
    for (uint32_t group = reduction; group < collectives_.back(); ++group)
      if (results_.newest(group) == static_cast<uint32_t>(number) &&
          waiting_.after[group].empty() && results_.freed_bytes(group) > 0)
        results_.raise(group, {start + 1, 0}, priorities_);
    for (const uint32_t feeder : results_.before(gather))
      if (feeder > reduction && !communicates(state_, groups_[feeder]) &&
          waiting_.count[feeder] == 0 && first_of(waiting_.after[feeder]) == gather)
        priorities_[feeder] = {start + 2, 0};
    priorities_[gather] = {start + 3, 0};
    return true;
  }
  /// The last group, before `end`, with which `share` of what is computed after `begin` is over.
  uint32_t after_share(uint32_t begin, uint32_t end, double share) const {
    double all = 0, sum = 0;
    for (uint32_t group = begin + 1; group < end; ++group)
      all += nanoseconds(group);
    for (uint32_t group = begin + 1; group < end; ++group) {
      sum += nanoseconds(group);
      if (sum >= share * all)
        return group;
    }
    return begin;
  }
};

} // namespace

void begin_gathers_in_time(State &state) {
  if (const auto priorities = GatherStarts(state).run())
    list_schedule(state, *priorities);
}

} // namespace tsc::scheduler
