// What holds for a schedule between any two steps of the pipeline.
#pragma once

#include "scheduler/state.h"

#include <string_view>

namespace tsc::scheduler {

/// Throws InternalError, which names `step` and the operation or buffer, unless: no buffer has two
/// producers, every node is in the order and (once there are groups) in one group exactly once, and
/// runs after all that its dependencies wait for.
void verify_order(const State &state, std::string_view step);

/// The same unless, in every body (of nodes, and of groups once they have theirs): a plain store
/// without a condition covers each element of what it stores exactly once, and no store, nor a load
/// that is under no mask, lies outside of its buffer. What is not affine, or of symbolic size, is
/// passed over.
void verify_bodies(const State &state, std::string_view step);

} // namespace tsc::scheduler
