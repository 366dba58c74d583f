#include "engine/fibers.h"
#include "runtime/engine_session.h"
#include "runtime/host_compiler.h"
#include "support/diagnostic.h"

#include <algorithm>
#include <chrono>
#include <optional>

namespace tsc::runtime {
namespace {

double since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

std::vector<double> time_on_host(const std::function<void(tsc_engine::Stream)> &run, int repeats,
                                 int warm_ups) {
  for (int i = 0; i < warm_ups; ++i)
    run(nullptr);
  std::vector<double> samples;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    run(nullptr);
    samples.push_back(since(start));
  }
  return samples;
}

/// A package's code where it is for what runs here, else compiled.
HostKernels load_kernels(const program::Program &program, const SessionOptions &options,
                         ContentCache *cache) {
  std::string why;
  if (options.images)
    if (std::optional<HostKernels> kernels =
            load_host_images(program, options.plan, *options.images, why))
      return std::move(*kernels);
  try {
    return load_host_kernels(program, options.plan, cache);
  } catch (const support::UserError &error) {
    if (!options.images)
      throw;
    std::vector<support::Diagnostic> problems = error.diagnostics();
    problems.push_back(unusable_images(why));
    throw support::UserError(error.exit_code(), std::move(problems));
  }
}

} // namespace

ReadyDevice make_ready_host(const program::Program &program, const SessionOptions &options,
                            Timing &timing) {
  const auto start = std::chrono::steady_clock::now();
  ContentCache cache(options.cache_folder);
  auto kernels = std::make_shared<HostKernels>(
      load_kernels(program, options, options.use_cache ? &cache : nullptr));
  timing.compiled = kernels->compiled;
  timing.from_cache = kernels->from_cache;
  timing.compile_ms = since(start);
  tsc_engine::HostDeviceOptions device_options;
  device_options.make_block_runner = &tsc_engine::make_fiber_runner;
  device_options.reversed = options.thread_order == SessionOptions::ThreadOrder::reverse;
  ReadyDevice ready;
  ready.device = tsc_engine::make_host_device(kernels->entries, device_options);
  ready.kernels = std::move(kernels);
  ready.time = &time_on_host;
  ready.plan = options.plan == Plan::serial ? tsc_engine::Plan::serial : tsc_engine::Plan::cuda;
  return ready;
}

} // namespace tsc::runtime
