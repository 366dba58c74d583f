// A device against the float64 reference, and where they part.
#pragma once

#include "driver/compile.h"
#include "driver/expected.h"
#include "runtime/session.h"
#include "tensor/host_tensor.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tsc::driver {

struct VerifyOptions {
  CompileOptions compile;
  runtime::SessionOptions session;
  uint64_t seed = 0;
  std::function<void(const std::string &)> progress; // what is being done
};

/// The first value that differs.
struct FirstWrong {
  std::string node, target, source_line;
  tensor::Agreement agreement;
};
struct Verdict {
  std::vector<OutputAgreement> outputs;
  bool agrees = true;
  /// Nothing if all agrees, or if the fault goes away where values in between are results.
  std::optional<FirstWrong> first_wrong;
  size_t parts_run = 0; // of the graph, to find it
};

/// Runs `compilation`, of `as_read`, on the device of `options` and on the reference, whose values
/// between operations are rounded as the device's are (what is expected) and are not (what is
/// true): docs/numbers.md says when that agrees. If it does not, halves the graph until one node is
/// left: what comes before it agrees. `inputs` as in compilation.program. Errors: those of running;
/// UserError (unsupported) TSC-C029 for programs of several ranks.
Verdict verify(const Compilation &compilation, const graph::Graph &as_read,
               const std::vector<tensor::HostTensor> &inputs, const tensor::TensorMap &weights,
               const VerifyOptions &options);

} // namespace tsc::driver
