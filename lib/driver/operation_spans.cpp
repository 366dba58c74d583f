#include "driver/operation_spans.h"

#include <utility>

namespace tsc::driver {

OperationSpans::OperationSpans(ReferenceOptions &options) {
  options.mark = [this](size_t operation, bool begins) {
    const double now = runtime::now_us();
    if (begins) {
      span_.steps.push_back({static_cast<uint32_t>(operation), now, 0, now, 0});
    } else {
      runtime::StepSpan &step = span_.steps.back();
      step.took_us = step.queued_for_us = now - step.began_us;
    }
  };
  span_.began_us = runtime::now_us();
}

runtime::RunSpan OperationSpans::finish() {
  span_.took_us = span_.queued_for_us = runtime::now_us() - span_.began_us;
  return std::move(span_);
}

} // namespace tsc::driver
