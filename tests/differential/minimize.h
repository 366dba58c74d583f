// Smaller subjects that fail in the same way.
#pragma once

#include "random_graph.h"

#include <functional>

namespace tsc::differential {

/// Drops outputs, makes inputs of calls, and removes what nothing needs, as long as `fails` says
/// yes, for about `seconds`.
Subject minimized(Subject subject, const std::function<bool(const Subject &)> &fails,
                  double seconds);

/// Calls that nothing needs, and inputs that nothing reads, are gone.
Subject without_dead(const Subject &subject);

} // namespace tsc::differential
