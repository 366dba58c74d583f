// Fusion decided by a clock (ScheduleOptions::fusion_timer).
#pragma once

#include "scheduler/fusion.h"

#include <optional>

namespace tsc::scheduler {

struct Measurement { // nanoseconds
  double first = 0, second = 0, together = 0;
};

/// Times two groups apart and as one over `nest`. Nothing if there is no timer, if one of the three
/// cannot be timed, or if a member adds atomically: how long that takes depends on where values
/// land, which made-up inputs do not show.
std::optional<Measurement> measure_fusion(const Fusion &fusion, GroupId first, GroupId second,
                                          const LoopNest &nest);

/// Notes the times, and refuses if one kernel takes as long as two or longer.
void refuse_if_slower(const Measurement &measured, Verdict &verdict);

} // namespace tsc::scheduler
