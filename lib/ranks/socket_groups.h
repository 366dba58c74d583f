// The groups of one rank among processes, on host memory: a connection to every other rank.
#pragma once

#include "engine/communicator.h"
#include "ranks/group_table.h"
#include "ranks/world.h"

#include <memory>

namespace tsc::ranks {

/// Connects to all ranks, which do the same. A collective fails with the world's failure
/// (World::throw_failure) when a rank is gone or does not come within the world's time, and with
/// TSC-R052 when two ranks do different things. `world` outlives the groups. Errors:
/// World::throw_failure.
std::unique_ptr<tsc_engine::Groups> make_socket_groups(World &world, const GroupTable &table);

} // namespace tsc::ranks
