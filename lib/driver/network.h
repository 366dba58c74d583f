// How long collectives take on a network that somebody describes, and how much of that a program
// hides: of more ranks than are there.
//
// The model. A network has levels, from the inside: GPUs of a machine, machines of a rack, and so
// on; each level joins `ranks` units of the level below. A collective goes level by level, from the
// outside; within one all units exchange at once with the level's bandwidth for each rank, one way,
// and it takes the level's latency log2(units) times. Of an all-gather of S bytes in the end,
// the outermost of r units moves (r - 1) times what a rank has, S / n, after which it has r times
// as much, and so on; a reduce-scatter the same backwards, an all-reduce both. A broadcast is
// limited by its slowest level. In an all-to-all each pair of ranks uses the outermost level that
// is between them.
#pragma once

#include "driver/compile.h"
#include "ranks/group_table.h"
#include "target/target.h"

#include <string>
#include <vector>

namespace tsc::driver {

struct NetworkLevel {
  int64_t ranks = 1;       // units of the level below
  double bandwidth = 1e11; // bytes a second, of each rank, one way
  double latency = 1e-6;   // seconds
};
struct Network {
  std::string name;
  std::vector<NetworkLevel> levels; // the innermost first
};

/// {"name": "..", "levels": [{"ranks": 8, "gigabytes_per_second": 450, "microseconds": 2}, ..]}.
/// Errors: UserError (bad_input) TSC-C054 for another form, and for fewer ranks than `world`.
Network read_network(const std::string &path, int64_t world);

/// Seconds that a collective of these ranks takes. `bytes`: what all ranks have together in the end
/// (all_gather) or at first (reduce_scatter), what each has otherwise.
double collective_seconds(const Network &network, const std::vector<int64_t> &members,
                          tsc_engine::CollectiveKind kind, double bytes);

struct PlannedCollective {
  std::string name, group, node; // of the operation, of the group, of the graph
  std::string what;              // "all_gather"
  double bytes = 0, seconds = 0;
  double exposed = 0; // seconds in which everything else waits for it
};
struct CommunicationPlan {
  std::vector<PlannedCollective> collectives;           // in the order in which they run
  double computing = 0, communicating = 0, exposed = 0; // seconds
  double total = 0;                                     // of a run
  int64_t memory = 0; // bytes of a rank: workspace, outputs, weights; -1 where sizes are symbols
};
/// Rank 0's run, imagined on two streams: what computes takes what `expected_cost` says of it on
/// `target`. Needs Form::program.
CommunicationPlan plan_communication(const Compilation &compilation, const target::Target &target,
                                     const Network &network, const ranks::GroupTable &table);

} // namespace tsc::driver
