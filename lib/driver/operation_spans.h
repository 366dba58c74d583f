// What `tsc run --profile` says of the reference.
#pragma once

#include "driver/reference.h"
#include "runtime/session.h"

namespace tsc::driver {

/// Notes when each operation of one run was evaluated; a step of the span is an operation of the
/// module. Outlives the run.
class OperationSpans {
public:
  explicit OperationSpans(ReferenceOptions &options);
  OperationSpans(const OperationSpans &) = delete;
  OperationSpans &operator=(const OperationSpans &) = delete;
  /// The run, which has ended now.
  runtime::RunSpan finish();

private:
  runtime::RunSpan span_;
};

} // namespace tsc::driver
