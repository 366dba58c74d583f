#include "runtime/session.h"

#include "runtime/engine_session.h"

#include <chrono>

namespace tsc::runtime {
namespace {

ReadyDevice make_ready(const program::Program &program, const SessionOptions &options,
                       Timing &timing) {
  return options.device == DeviceKind::cuda ? make_ready_cuda(program, options, timing)
                                            : make_ready_host(program, options, timing);
}

} // namespace

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

struct Preparation::Ready {
  Ready(const program::Program &program, const SessionOptions &options)
      : device(make_ready(program, options, timing)) {}
  Timing timing;
  ReadyDevice device;
};

Preparation::Preparation(const program::Program &program, const SessionOptions &options)
    : program_(program), ready_(std::async(std::launch::async, [&program, options] {
        return std::make_unique<Ready>(program, options);
      })) {}

Preparation::~Preparation() = default;

std::unique_ptr<Session> Session::create(Preparation &preparation,
                                         const tensor::TensorMap &weights) {
  const std::unique_ptr<Preparation::Ready> ready = preparation.ready_.get();
  return make_engine_session(preparation.program_, weights, std::move(ready->device),
                             ready->timing);
}

std::unique_ptr<Session> Session::create(const program::Program &program,
                                         const tensor::TensorMap &weights,
                                         const SessionOptions &options) {
  Timing timing;
  ReadyDevice device = make_ready(program, options, timing);
  return make_engine_session(program, weights, std::move(device), timing);
}

} // namespace tsc::runtime
