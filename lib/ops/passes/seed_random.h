// Gives every draw its stream, and the graph the state that they start from.
#pragma once

#include "ops/passes/passes.h"

namespace tsc::ops {

/// Before: random operators are decomposed to draws (ops/draws.h). After: if there are any, the
/// graph has the input `random_state` ({seed, call number}, int64), every draw reads it and has a
/// number of its own (`stream`, in the graph's order), and the state's successor ({seed, call
/// number
/// + 1}) is written back to it. Runs before clean_up, so that what is removed there does not change
/// the numbers of what stays.
graph::Graph seed_random(graph::Graph graph, const PassOptions &options);

} // namespace tsc::ops
