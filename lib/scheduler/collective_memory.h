// Orders around collectives that keep less memory alive and hide as much.
#pragma once

#include "scheduler/list_schedule.h"

namespace tsc::scheduler {

/// Of a group that no collective needs.
inline constexpr uint64_t kNoCollective = UINT64_MAX;

/// Whether ranks communicate in the group.
bool communicates(const State &state, const Group &group);

/// Gives groups that no collective needs, and that use up more memory than they make (an
/// optimizer's step, of a gradient), a place before the second collective after the one whose
/// result they use, if between there and where they stand more is alive than ever before: that
/// collective is done by then, or all that is computed would soon have to wait for it, and what the
/// second one sends is not there yet. `collectives`: groups, in order; `priorities`: of each group
/// the number of the first collective that needs it. False if nothing is to change.
bool use_results_early(const State &state, const std::vector<uint32_t> &collectives,
                       std::vector<Priority> &priorities);

/// Kernels that wait for nothing, each right before the first group that waits for it, if memory is
/// nearly full in between.
void sink_free_kernels(State &state);

/// An all-gather right behind a reduce-scatter runs after it, on the same links. Until somebody
/// needs the gather, the two share what is computed meanwhile by their bytes: the reduction has its
/// share, then its result is used up, and then the gather begins, for which there was no memory
/// before. What is hidden stays hidden whatever the links give, as long as it is for both.
void begin_gathers_in_time(State &state);

} // namespace tsc::scheduler
