#include "codegen/generate.h"
#include "runtime/content_cache.h"
#include "runtime/cuda_module.h"
#include "runtime/engine_session.h"
#include "runtime/kernel_units.h"
#include "support/diagnostic.h"
#include "support/hash.h"
#include "support/thread_pool.h"

#include <chrono>
#include <future>
#include <optional>
#include <string_view>

namespace tsc::runtime {
namespace {

using support::ExitCode;
using support::UserError;

[[noreturn]] void no_cuda(const std::string &why) {
  throw UserError(ExitCode::device, {.code = "TSC-R020",
                                     .message = "CUDA cannot be used: " + why,
                                     .next_step = "use --device host"});
}

class CubinMaker {
public:
  CubinMaker(const CudaModule &module, std::string arch, ContentCache *cache)
      : module_(module), arch_(std::move(arch)), cache_(cache) {
    support::ContentHash identity;
    identity.add("tsc " TSC_VERSION).add(module_.compiler_identity()).add(arch_);
    for (const codegen::PreludeFile &file : codegen::prelude_files()) {
      headers_.push_back({std::string(file.name), std::string(file.text)});
      identity.add(file.name).add(file.text);
    }
    identity_ = identity.hex();
  }

  /// `cached`: whether it was there.
  std::string make(const std::string &name, const std::string &text, bool &cached) const {
    const std::string key =
        support::ContentHash().add("cubin 1").add(identity_).add(text).hex() + ".cubin";
    if (cache_) {
      if (std::optional<std::string> found = cache_->read(key)) {
        cached = true;
        return std::move(*found);
      }
    }
    cached = false;
    const std::vector<char> cubin = module_.compile_cubin(name + ".cu", text, headers_, arch_);
    std::string bytes(cubin.begin(), cubin.end());
    if (cache_)
      cache_->store(key, bytes);
    return bytes;
  }

private:
  const CudaModule &module_;
  const std::string arch_;
  ContentCache *const cache_;
  std::vector<tsc_engine::CudaHeader> headers_;
  std::string identity_;
};

/// "sm_90" from "sm_9" on is of the same family: code for a lower number of it runs.
bool runs_on(const std::string &image, const std::string &gpu) {
  return image.size() == gpu.size() && image.size() > 4 && image.rfind("sm_", 0) == 0 &&
         image.compare(0, image.size() - 1, gpu, 0, gpu.size() - 1) == 0 && image <= gpu &&
         (image == gpu || image < "sm_90"); // from 9.0 on kernels use what one architecture has
}

std::vector<std::string> make_cubins(const CudaModule &module, const program::Program &program,
                                     const SessionOptions &options, Timing &timing) {
  ContentCache cache(options.cache_folder);
  const CubinMaker maker(module, module.arch(options.device_index),
                         options.use_cache ? &cache : nullptr);
  const std::vector<KernelUnit> units = make_kernel_units(program, Plan::cuda);
  std::vector<std::string> cubins(units.size());
  std::vector<char> cached(units.size()); // not bool: written by several threads
  support::parallel_for(units.size(), [&](size_t i) {
    bool found = false;
    cubins[i] = maker.make(program.kernels[units[i].kernels[0]].name, units[i].text, found);
    cached[i] = found;
  });
  for (size_t i = 0; i < units.size(); ++i)
    (cached[i] ? timing.from_cache : timing.compiled) += units[i].kernels.size();
  if (options.use_cache && timing.compiled > 0)
    cache.evict();
  return cubins;
}

/// Why a package's code cannot run on `gpu`; "" if it can.
std::string why_unusable(const program::Program &program, const program::KernelImages &images,
                         const std::string &gpu) {
  if (!runs_on(images.target, gpu))
    return "it is for " + (images.target.empty() ? "another plan" : images.target) +
           ", the GPU is " + gpu;
  const std::vector<KernelUnit> units = make_package_units(program, Plan::cuda);
  if (units.size() != images.images.size() || images.identity != identity_of(units))
    return "it is of other kernels than the program's, or of another version of tsc";
  return "";
}

/// A package's cubins where they are for this GPU, else compiled. `kept` holds what is compiled.
std::vector<std::string_view> load_cubins(const CudaModule &module, const program::Program &program,
                                          const SessionOptions &options, Timing &timing,
                                          std::vector<std::string> &kept) {
  std::string why;
  if (options.images) {
    why = why_unusable(program, *options.images, module.arch(options.device_index));
    if (why.empty()) {
      timing.from_cache = program.kernels.size();
      return options.images->images;
    }
  }
  try {
    kept = make_cubins(module, program, options, timing);
  } catch (const tsc_engine::Error &error) {
    if (!options.images)
      throw;
    throw UserError(ExitCode::device,
                    {{.code = "TSC-R020",
                      .message = std::string("CUDA cannot be used: ") + error.what(),
                      .next_step = "use --device host"},
                     unusable_images(why)});
  }
  return {kept.begin(), kept.end()};
}

} // namespace

program::KernelImages compile_cuda_images(const program::Program &program,
                                          const std::string &arch) {
  std::string why;
  const CudaModule *module = load_cuda_module(why);
  if (!module)
    no_cuda(why);
  const auto cubins = std::make_shared<std::vector<std::string>>();
  const std::vector<KernelUnit> units = make_package_units(program, Plan::cuda);
  try {
    const CubinMaker maker(*module, arch, nullptr);
    cubins->resize(units.size());
    support::parallel_for(units.size(), [&](size_t i) {
      bool found = false;
      (*cubins)[i] = maker.make(program.kernels[units[i].kernels[0]].name, units[i].text, found);
    });
  } catch (const tsc_engine::Error &error) {
    no_cuda(error.what());
  }
  program::KernelImages result;
  result.target = arch;
  result.identity = identity_of(units);
  result.images.assign(cubins->begin(), cubins->end());
  result.owner = cubins;
  return result;
}

ReadyDevice make_ready_cuda(const program::Program &program, const SessionOptions &options,
                            Timing &timing) {
  std::string why;
  const CudaModule *module = load_cuda_module(why);
  if (!module)
    no_cuda(why);
  const auto start = std::chrono::steady_clock::now();
  std::shared_ptr<tsc_engine::CudaDevice> device;
  try {
    std::future<void> context =
        std::async(std::launch::async, module->make_context, options.device_index);
    std::vector<std::string> kept;
    const std::vector<std::string_view> cubins =
        load_cubins(*module, program, options, timing, kept);
    context.get();
    tsc_engine::CudaDeviceOptions device_options;
    device_options.device_index = options.device_index;
    for (const program::Kernel &kernel : program.kernels)
      device_options.kernels.push_back(kernel.name);
    for (const std::string_view cubin : cubins)
      device_options.images.push_back({cubin.data(), cubin.size()});
    device = module->make_device(device_options);
  } catch (const tsc_engine::Error &error) {
    no_cuda(error.what());
  }
  timing.compile_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  ReadyDevice ready;
  ready.device = device;
  ready.stream = device->stream();
  ready.time = [device](const std::function<void(tsc_engine::Stream)> &run, int repeats,
                        int warm_ups) { return device->time(run, repeats, warm_ups); };
  ready.plan = tsc_engine::Plan::cuda;
  ready.use_graphs = options.use_graphs;
  return ready;
}

} // namespace tsc::runtime
