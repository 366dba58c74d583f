// A graph one call after the other, each compiled alone, in memory that views share: what eager
// mode does. Nothing is merged, fused or made functional.
#pragma once

#include "random_graph.h"

#include <optional>

namespace tsc::differential {

struct EagerResult {
  std::vector<tensor::HostTensor> outputs; // user outputs, in order
  std::vector<tensor::HostTensor> inputs;  // afterwards
};
/// Nothing where the graph holds what this cannot say: symbolic sizes, calls of which it depends on
/// strides whether they copy while something is written. Errors: those of compiling a call.
std::optional<EagerResult> run_eagerly(const Subject &subject);

} // namespace tsc::differential
