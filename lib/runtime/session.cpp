#include "runtime/session.h"

#include "runtime/engine_session.h"

#include <chrono>

namespace tsc::runtime {

double now_us() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

std::unique_ptr<Session> Session::create(const program::Program &program,
                                         const tensor::TensorMap &weights,
                                         const SessionOptions &options) {
  Timing timing;
  ReadyDevice device = options.device == DeviceKind::cuda
                           ? make_ready_cuda(program, options, timing)
                           : make_ready_host(program, options, timing);
  return make_engine_session(program, weights, std::move(device), timing);
}

} // namespace tsc::runtime
