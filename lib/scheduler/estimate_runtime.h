// How long a group may take, from what it moves and computes.
#pragma once

#include "scheduler/schedule.h"

namespace tsc::scheduler {

struct RuntimeEstimate {
  double bytes = 0;       // of memory read and written; of a collective: sent over links by a rank
  double operations = 0;  // arithmetic, a multiplication with its addition counting two
  double nanoseconds = 0; // the longer of the two at the architecture's peaks
};

/// A lower bound: peaks of the data sheet, nothing for launches. Sizes that are not known take
/// their hint. Nodes that only allocate, waits and changes of storage take nothing.
RuntimeEstimate estimate_runtime(const ir::Module &module, const Schedule &schedule,
                                 const Group &group, const target::Target &target);

} // namespace tsc::scheduler
