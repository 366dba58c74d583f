// A session over the support layer, whatever the device: inputs checked and laid out, steps run,
// outputs brought back.
#pragma once

#include "engine/engine.h"
#include "program/tables.h"
#include "runtime/session.h"
#include "support/diagnostic.h"

#include <functional>
#include <memory>

namespace tsc::runtime {

/// A device with kernels loaded, and how runs on it are timed.
struct ReadyDevice {
  std::shared_ptr<void> kernels; // outlives the device
  std::shared_ptr<tsc_engine::Device> device;
  tsc_engine::Stream stream = nullptr;
  /// Milliseconds of each of `repeats` calls, after `warm_ups` that do not count.
  std::function<std::vector<double>(const std::function<void(tsc_engine::Stream)> &run, int repeats,
                                    int warm_ups)>
      time;
  tsc_engine::Plan plan = tsc_engine::Plan::cuda;
  bool use_graphs = false;
};

/// The program with its weights on the device; `weight_bytes`: how much they take there. Errors: as
/// Session::create.
std::unique_ptr<tsc_engine::Instance> load_instance(const ReadyDevice &device,
                                                    const program::OwnedTables &tables,
                                                    const tensor::TensorMap &weights,
                                                    size_t &weight_bytes);
/// Loads the weights. `timing`: what is known so far. Errors: as Session::create.
std::unique_ptr<Session> make_engine_session(const program::Program &program,
                                             const tensor::TensorMap &weights, ReadyDevice device,
                                             const Timing &timing);

/// The host's kernels, compiled or from the cache, and the host as a device.
ReadyDevice make_ready_host(const program::Program &program, const SessionOptions &options,
                            Timing &timing);
/// Why the code of a package is not what runs: said where its kernels cannot be compiled either.
support::Diagnostic unusable_images(const std::string &why);
program::KernelImages compile_host_images(const program::Program &program);
program::KernelImages compile_cuda_images(const program::Program &program, const std::string &arch);
/// Likewise for a GPU, through the CUDA module.
ReadyDevice make_ready_cuda(const program::Program &program, const SessionOptions &options,
                            Timing &timing);

} // namespace tsc::runtime
