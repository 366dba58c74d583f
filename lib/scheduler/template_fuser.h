// What those who fuse groups with a template's kernel share: who is beside it, what it costs there,
// and what is said about it.
#pragma once

#include "scheduler/state.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

namespace tsc::scheduler {

class TemplateFuser {
protected:
  explicit TemplateFuser(State &state);

  State &state_;
  std::vector<Group> &groups_;
  std::vector<uint32_t> group_of_; // by node

  const ir::Buffer &buffer(BufferId id) const { return state_.module.buffer(id); }

  /// Why a group cannot be beside a template in its kernel; no text: it can.
  struct Objection {
    Refusal refusal = Refusal::none;
    std::string text;
    NodeId other = ir::kNone; // of the group; kNone: there is none
  };

  /// Memory that a group's kernel moves, less what only its members read. `without`: a buffer that
  /// counts nonetheless, or (`others_only`) the one that does not count. `packed`: what an access
  /// counts once for each element may hold several in one.
  int64_t bytes_of(const Group &group, BufferId without, bool others_only,
                   bool packed = false) const;
  template <class Predicate> bool users_are(BufferId id, const Predicate &predicate) const {
    const std::vector<User> &users = state_.schedule.users[id];
    return std::all_of(users.begin(), users.end(), [&](const User &user) {
      return user.is_weak || (user.node != ir::kNone && predicate(user.node));
    });
  }
  /// True if a group behind `from` and before `to` writes memory that `readers` read. What follows
  /// a template in its kernel counts: other blocks still read the operands when one stores results.
  bool writes_between(size_t from, size_t to, std::span<const size_t> readers) const;
  void remove_empty_groups();

  void refuse(NodeId first, NodeId second, Refusal refusal, const std::string &why);
  void record(NodeId first, NodeId second, Refusal refusal, int64_t bytes, std::string text);

private:
  /// True if only members read `id`, so that it is never stored; `kept` is.
  bool only_here(const Group &group, BufferId id, BufferId kept) const;
};

} // namespace tsc::scheduler
