// Blocks: a collective with the copies that prepare it, and its wait with the copies that follow.
#include "scheduler/dependency.h"
#include "scheduler/list_schedule.h"
#include "scheduler/steps.h"

#include <algorithm>
#include <unordered_set>

namespace tsc::scheduler {

namespace {

using ir::Library;

class BlockFinder {
public:
  explicit BlockFinder(State &state) : state_(state), in_block_(state.schedule.nodes.size()) {}

  void run() {
    for (const NodeId id : state_.order) {
      const std::optional<Library> library = library_of(state_, id);
      if (library == Library::all_gather)
        find_all_gather(id);
      else if (library == Library::chunk_concat)
        find_reduce_scatter(id);
    }
  }

private:
  State &state_;
  std::vector<bool> in_block_;

  /// What the all-gather waits for, if a copy-in is among it; then what makes its result usable.
  void find_all_gather(NodeId gather) {
    const std::vector<NodeId> before = ancestors(gather);
    const bool copies_in = std::any_of(before.begin(), before.end(), [&](NodeId id) {
      return library_of(state_, id) == Library::gather_copy_in;
    });
    const std::vector<NodeId> after = copies_out(gather);
    if (copies_in && !after.empty())
      add_pair(before, after, state_.gathers);
  }

  /// The node and, recursively, what it reads, as far as that is in no block.
  std::vector<NodeId> ancestors(NodeId id) const {
    std::vector<NodeId> found = {id};
    std::unordered_set<NodeId> seen = {id};
    for (size_t i = 0; i < found.size(); ++i) {
      for (const NodeId producer : state_.schedule.nodes[found[i]].ancestors_hint)
        if (!in_block_[producer] && seen.insert(producer).second)
          found.push_back(producer);
    }
    return found;
  }

  /// The wait, the copy out of the gathered memory, and storages that are set to the copies: one
  /// copy out at most.
  std::vector<NodeId> copies_out(NodeId gather) const {
    std::vector<NodeId> found;
    std::vector<NodeId> open = {gather};
    for (size_t i = 0; i < open.size(); ++i) {
      for (const NodeId user : users_of(open[i])) {
        const std::optional<Library> library = library_of(state_, user);
        const bool belongs = library == Library::wait || library == Library::split_copy_out ||
                             library == Library::set_storage;
        if (belongs && !in_block_[user] &&
            std::find(found.begin(), found.end(), user) == found.end()) {
          found.push_back(user);
          open.push_back(user);
        }
      }
    }
    std::sort(found.begin(), found.end()); // in operation order
    size_t copies = 0;
    const auto second = std::find_if(found.begin(), found.end(), [&](NodeId id) {
      return library_of(state_, id) == Library::split_copy_out && ++copies > 1;
    });
    found.erase(second, found.end());
    const bool waits = !found.empty() && library_of(state_, found[0]) == Library::wait;
    return waits ? found : std::vector<NodeId>();
  }

  /// The copy into chunks, what else is done to them alone, and the reduce-scatter; then its wait.
  void find_reduce_scatter(NodeId chunks) {
    std::vector<NodeId> before = {chunks};
    while (library_of(state_, before.back()) != Library::reduce_scatter) {
      const std::optional<NodeId> next = only_user(before.back());
      const bool loops = next && state_.operation(*next).is_loops();
      if (!next || in_block_[*next] ||
          (!loops && library_of(state_, *next) != Library::reduce_scatter))
        return;
      before.push_back(*next);
    }
    std::vector<NodeId> after;
    for (const NodeId user : users_of(before.back()))
      if (library_of(state_, user) == Library::wait && !in_block_[user])
        after.push_back(user);
    if (!after.empty())
      add_pair(before, after, state_.reductions);
  }

  /// Who reads what the node writes, each once.
  std::vector<NodeId> users_of(NodeId id) const {
    std::vector<NodeId> found;
    for (const BufferId output : state_.operation(id).outputs) {
      for (const User &user : state_.schedule.users[output])
        if (!user.is_weak && user.node != ir::kNone && user.node != id &&
            std::find(found.begin(), found.end(), user.node) == found.end())
          found.push_back(user.node);
    }
    return found;
  }

  /// The only one that does, a wait aside.
  std::optional<NodeId> only_user(NodeId id) const {
    std::optional<NodeId> only;
    for (const NodeId user : users_of(id)) {
      if (library_of(state_, user) == Library::wait)
        continue;
      if (only)
        return std::nullopt;
      only = user;
    }
    return only;
  }

  void add_pair(const std::vector<NodeId> &before, const std::vector<NodeId> &after,
                std::vector<State::BlockPair> &pairs) {
    const uint32_t first = add_block(before), second = add_block(after);
    pairs.push_back({first, second});
  }

  uint32_t add_block(std::vector<NodeId> members) {
    std::sort(members.begin(), members.end());
    for (const NodeId member : members)
      in_block_[member] = true;
    state_.blocks.push_back(std::move(members));
    return static_cast<uint32_t>(state_.blocks.size() - 1);
  }
};

} // namespace

void group_collectives(State &state) {
  state.has_collectives = has_collectives(state);
  if (state.has_collectives)
    BlockFinder(state).run();
}

} // namespace tsc::scheduler
