// Programs that several ranks run together: one process, one graph, inputs of their own.
//
// In files of tensors "rank_1/NAME" is rank 1's; a name without a rank is every rank's.
#pragma once

#include "driver/compile.h"
#include "driver/inputs.h"
#include "driver/reference.h"
#include "interpret/interpret.h"
#include "ranks/group_table.h"
#include "runtime/session.h"
#include "tensor/host_tensor.h"

#include <optional>
#include <string>
#include <vector>

namespace tsc::driver {

using RankTensors = std::vector<std::vector<tensor::HostTensor>>; // by rank

bool has_collectives(const program::Program &program);

/// What the user says of the ranks of a run.
struct RanksAsked {
  int64_t world_size = 0;          // 0: not said
  std::vector<std::string> groups; // as ranks::make_group_table takes them
  std::string mesh;
};
/// The groups of the program's collectives; a world of 1 for a program without. Errors: UserError
/// (usage) TSC-C011 if the number of ranks is not what the program's groups have, TSC-C051 for what
/// cannot be read, TSC-C052 for groups that are smaller than the world and not described, or
/// described otherwise than the graph has them.
ranks::GroupTable group_table(const program::Program &program, const RanksAsked &asked);

/// What `file` holds for `rank`, by plain names.
tensor::TensorMap tensors_of_rank(const tensor::TensorMap &file, int64_t rank);
/// "rank_1/NAME".
std::string name_of_rank(int64_t rank, const std::string &name);

/// load_inputs for `count` ranks from `first` on; at random, each rank's seed is one more than that
/// of the rank before.
RankTensors load_rank_inputs(const program::Program &program, const DataSource &source,
                             int64_t first, int64_t count,
                             const std::map<std::string, DataHint> &hints,
                             const Constants &constants, const Shapes &shapes = {});

/// run_reference on all ranks together.
RankTensors run_reference_ranks(const Compilation &compilation, const RankTensors &inputs,
                                const tensor::TensorMap &weights, const interpret::Links &links,
                                const ReferenceOptions &options = {});

struct RankRun {
  RankTensors outputs;
  runtime::Timing timing;                              // of rank 0
  std::vector<double> samples_ms;                      // of rank 0, if `bench` is not 0
  std::vector<std::vector<runtime::RunSpan>> profiles; // by rank, if `profiled` is not 0
};
/// What is done after the first run.
struct RepeatedRuns {
  int bench = 0, profiled = 0;
};
/// A session a rank, each on a thread of its own, on the host.
RankRun run_ranks_on_host(const program::Program &program, const RankTensors &inputs,
                          const tensor::TensorMap &weights, const ranks::GroupTable &table,
                          const runtime::SessionOptions &options, uint64_t seed,
                          const RepeatedRuns &repeated);

} // namespace tsc::driver
