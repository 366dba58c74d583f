#include "runtime/session.h"

#include "runtime/engine_session.h"

#include <chrono>

namespace tsc::runtime {

program::KernelImages compile_images(const program::Program &program, const std::string &arch) {
  return arch == "host" ? compile_host_images(program) : compile_cuda_images(program, arch);
}

support::Diagnostic unusable_images(const std::string &why) {
  return {.code = "TSC-R032",
          .message = "the package's code cannot be used here: " + why,
          .next_step = "compile the graph again for this machine"};
}

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
