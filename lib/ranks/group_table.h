// Which ranks make up the groups that a graph names. A graph says how many a group has and no more:
// groups of a mesh's dimension have one name on all ranks and other members on each.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tsc::ranks {

struct GroupTable {
  int64_t world = 1;
  /// By name of the group: lists of ranks. Each rank is in one of them, which is its group; ranks
  /// are numbered in it as they stand there. A group that has no name here is the whole world.
  std::map<std::string, std::vector<std::vector<int64_t>>> groups;

  /// The group of that name that `rank` is in.
  std::vector<int64_t> members(const std::string &name, int64_t rank) const;
  /// "tp=0,1/2,3 of 4", the same for equal tables.
  std::string text() const;
};

/// `groups`: "NAME=0,1/2,3", each. `mesh`: "NAME=SIZE,NAME=SIZE", ranks in it row by row, as
/// PyTorch's init_device_mesh lays them; "": none. Errors: UserError (usage) TSC-C051 for what is
/// malformed, does not hold each rank once, or has lists of different lengths.
GroupTable make_group_table(int64_t world, const std::vector<std::string> &groups,
                            const std::string &mesh);

} // namespace tsc::ranks
