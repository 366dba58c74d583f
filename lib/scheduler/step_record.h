// What a step of the pipeline changed, found by comparing the state before and after it.
#pragma once

#include "scheduler/state.h"

namespace tsc::scheduler {

/// The parts of a State that steps change.
struct StateCopy {
  Schedule schedule;
  std::vector<BufferId> renamed;
  std::vector<NodeId> order;
};
StateCopy copy_of(const State &state);

/// Every difference between the two, whatever the step: a step needs no code of its own to be seen.
std::vector<StepChange> find_changes(const State &state, const StateCopy &before);

} // namespace tsc::scheduler
