// Loops of one group in the order, and cut into the pieces, in which another group walks through a
// buffer that both use: what keeps many a pair of kernels apart is only that.
#pragma once

#include "scheduler/fusion.h"

#include <optional>
#include <string>
#include <vector>

namespace tsc::scheduler {

/// A group whose loops run otherwise. Elements, and which of them belong together, are the same.
struct TurnedLoops {
  GroupId group = 0;
  std::vector<LoopsBeforeFusion> members; // body and accesses of each, over the new loops
  LoopNest nest;
  std::string text; // "op0 over (4, 3), was (12)"
};

/// The loops of `group`, which must not reduce, turned so that its largest access that can be made
/// so equals one of `other`. Nothing if there is none.
///
/// Let R be the index at which `group` accesses the buffer, T that of `other`. Loops of `group` are
/// cut where R divides them (z0//4, and what is left over) and where a stride of T falls inside
/// one, until R is a sum of loops times strides: then each loop covers one digit of the flat
/// position in memory, and the map from loops to elements is inverted by sorting the digits as T
/// nests them.
std::optional<TurnedLoops> turn_loops(const Fusion &fusion, GroupId group, GroupId other);

/// Exchanges loops and accesses of the group with those in `turned`: twice, and all is as it was.
void exchange(Fusion &fusion, TurnedLoops &turned);

/// What cost.h counts (moved_bytes), by the threads of one nest: bytes that memory moves for a
/// kernel of `groups` over `nest`: those of each access, and whole sectors for elements where
/// neighbouring threads do not meet neighbours. What only members use is not counted.
double sector_bytes(const Fusion &fusion, std::vector<GroupId> groups, const LoopNest &nest);

} // namespace tsc::scheduler
