// What the steps of the pipeline share while a Schedule is being made.
#pragma once

#include "scheduler/schedule.h"

#include <vector>

namespace tsc::scheduler {

struct State {
  const ir::Module &module;
  const ScheduleOptions &options;
  Schedule schedule;

  /// By buffer: the node that writes it, or kNone for inputs and constants.
  std::vector<NodeId> producer;
  /// By buffer: the buffer that stands for its contents after a mutation, or kNone. A reader
  /// scheduled later reads that one.
  std::vector<BufferId> renamed;
  /// Nodes in topological order, after `sort_nodes`.
  std::vector<NodeId> order;

  /// Nodes that are launched together, by position in Schedule::lists (`create_lists`).
  std::vector<std::vector<NodeId>> lists;

  bool has_collectives = false;
  /// Nodes that run one after the other with nothing between, in order (`group_collectives`).
  std::vector<std::vector<NodeId>> blocks;
  /// Two blocks: what starts a collective, and what its end makes possible.
  struct BlockPair {
    uint32_t start = 0, done = 0;
  };
  std::vector<BlockPair> gathers, reductions; // in order
  /// With collectives, by node: buffers whose writers it runs after without reading them.
  std::vector<std::vector<BufferId>> awaited;

  /// `buffer` after all mutations seen so far.
  BufferId current_name(BufferId buffer) const;
  /// True if `buffer` is memory that the program allocates for it alone and that holds nothing but
  /// what its producer wrote: no input, no view, never mutated.
  bool owns_memory(BufferId buffer) const;
  const target::Policy &policy() const { return *options.policy; }
  const ir::Operation &operation(NodeId node) const {
    return module.operations[schedule.nodes[node].operation];
  }
};

} // namespace tsc::scheduler
