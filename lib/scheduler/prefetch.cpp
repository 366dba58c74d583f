// A gather that reads weights alone could begin at once. Begun too early, all gathered weights are
// alive together; begun in the order of a traced program, it stands behind the reduction of the
// layer before, and what needs it waits for both. So each begins when the one `prefetch_gathers`
// places before it has come, that is while that one's layer is computed.
#include "scheduler/prefetch.h"

#include "scheduler/dependency.h"
#include "scheduler/list_schedule.h"

#include <algorithm>
#include <optional>

namespace tsc::scheduler {

namespace {

struct Gather {
  NodeId node = 0, wait = 0;
  int64_t bytes = 0;
  size_t place = 0; // among other collectives: before that one of them
};

class Planner {
public:
  Planner(const State &state, std::vector<NodeId> &collectives)
      : state_(state), collectives_(collectives), in_block_(state.schedule.nodes.size(), false) {
    for (const std::vector<NodeId> &block : state.blocks)
      for (const NodeId node : block)
        in_block_[node] = true;
  }

  std::vector<Prefetch> run() {
    find_tainted();
    for (const NodeId node : collectives_)
      if (const std::optional<NodeId> wait = wait_of_free_gather(node))
        gathers_.push_back({node, *wait, bytes_of(node), others_.size()});
      else
        others_.push_back(node);
    std::vector<Prefetch> result;
    if (gathers_.size() < 2)
      return result;
    find_first_users();
    for (size_t i = 1; i < gathers_.size(); ++i) {
      const size_t awaited = last_to_await(i);
      result.push_back({gathers_[i].node, gathers_[awaited].wait});
      gathers_[i].place = std::max(
          gathers_[i - 1].place, std::min(gathers_[i].place, first_user_[gathers_[awaited].wait]));
    }
    merge();
    return result;
  }

private:
  const State &state_;
  std::vector<NodeId> &collectives_;
  std::vector<bool> in_block_;
  std::vector<bool> tainted_;      // by node: needs what a collective yields
  std::vector<size_t> first_user_; // by node: the first of others_ that needs it
  std::vector<Gather> gathers_;
  std::vector<NodeId> others_;

  const std::vector<NodeId> &needs(NodeId node) const {
    return state_.schedule.nodes[node].ancestors_hint;
  }

  void find_tainted() {
    tainted_.assign(state_.schedule.nodes.size(), false);
    for (const NodeId node : state_.order) {
      tainted_[node] = std::any_of(needs(node).begin(), needs(node).end(), [&](NodeId producer) {
        const std::optional<ir::Library> library = library_of(state_, producer);
        return tainted_[producer] || (library && ir::is_collective(*library));
      });
    }
  }

  std::optional<NodeId> wait_of_free_gather(NodeId node) const {
    if (in_block_[node] || tainted_[node] || library_of(state_, node) != ir::Library::all_gather)
      return std::nullopt;
    for (const BufferId output : state_.operation(node).outputs)
      for (const User &user : state_.schedule.users[output])
        if (user.node != ir::kNone && !in_block_[user.node] &&
            library_of(state_, user.node) == ir::Library::wait)
          return user.node;
    return std::nullopt;
  }

  /// Sizes that are not known count as nothing.
  int64_t bytes_of(NodeId node) const {
    const auto &call = std::get<ir::Extern>(state_.operation(node).kind);
    const symbolic::Expr elements = symbolic::numel(call.inputs[0].layout.sizes);
    if (!elements.is_integer())
      return 0;
    return elements.value() * call.group.size *
           static_cast<int64_t>(tensor::size_in_bytes(call.inputs[0].dtype));
  }

  void find_first_users() {
    first_user_.assign(state_.schedule.nodes.size(), others_.size());
    std::vector<bool> seen(state_.schedule.nodes.size(), false);
    for (size_t i = 0; i < others_.size(); ++i) {
      std::vector<NodeId> open = {others_[i]};
      while (!open.empty()) {
        const NodeId node = open.back();
        open.pop_back();
        if (seen[node])
          continue;
        seen[node] = true;
        first_user_[node] = i;
        open.insert(open.end(), needs(node).begin(), needs(node).end());
      }
    }
  }

  /// The earliest of the gathers before number `i` whose end is enough for it to begin.
  size_t last_to_await(size_t i) const {
    size_t awaited = i - 1;
    int64_t bytes = gathers_[i].bytes;
    while (awaited > 0 && i - awaited < state_.policy().prefetch_gathers &&
           gathers_[awaited].bytes <= state_.policy().prefetch_bytes - bytes)
      bytes += gathers_[awaited--].bytes;
    return awaited;
  }

  void merge() {
    std::vector<NodeId> merged;
    size_t next = 0;
    for (size_t i = 0; i <= others_.size(); ++i) {
      for (; next < gathers_.size() && gathers_[next].place == i; ++next)
        merged.push_back(gathers_[next].node);
      if (i < others_.size())
        merged.push_back(others_[i]);
    }
    collectives_ = std::move(merged);
  }
};

} // namespace

std::vector<Prefetch> plan_prefetch(const State &state, std::vector<NodeId> &collectives) {
  if (state.policy().prefetch_gathers == 0)
    return {};
  return Planner(state, collectives).run();
}

} // namespace tsc::scheduler
