// What depends on weights alone.
#pragma once

#include "scheduler/state.h"

#include <vector>

namespace tsc::scheduler {

/// Groups that run once, when weights are loaded, and what they make.
struct WeightsOnly {
  std::vector<bool> groups;  // by place in Schedule::groups
  std::vector<bool> buffers; // by buffer: weights that nothing mutates, and what such groups make
};

/// A group depends on weights alone where all that its members read are such buffers or each
/// other's results, none has side effects, and they write memory of known size that is neither
/// returned nor mutated. Precondition: groups stand in an order in which they may run. Lowering
/// asks the same of a graph, before there are groups (lowering/weights.h), and code generation of
/// steps, which share memory that groups do not know of (codegen/finish_program.h).
WeightsOnly find_weights_only(const State &state);

} // namespace tsc::scheduler
