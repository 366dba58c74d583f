#include "runtime/cuda_module.h"

#include "runtime/module_places.h"
#include "runtime/session.h"
#include "support/opened_libraries.h"
#include "target/target.h"

#include <dlfcn.h>

namespace tsc::runtime {
namespace {

struct Loaded {
  const CudaModule *module = nullptr;
  std::string why;
};

#ifndef TSC_WITH_CUDA

Loaded load() {
  return {nullptr, "this tsc was built without CUDA (no CUDA toolkit was found then)"};
}

#else

constexpr const char *kModuleName = "libtsc_cuda.so";

Loaded load() {
  Loaded loaded;
  for (const std::string &place : module_places(kModuleName)) {
    void *handle = dlopen(place.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
      const char *why = dlerror();
      loaded.why = std::string("the CUDA module cannot be loaded: ") + (why ? why : place);
      continue;
    }
    support::library_was_opened();
    using Get = const CudaModule *(*)();
    Get get = reinterpret_cast<Get>(dlsym(handle, "tsc_cuda_module"));
    const CudaModule *module = get ? get() : nullptr;
    if (module && module->version == kCudaModuleVersion)
      return {module, ""};
    loaded.why = "the CUDA module " + place + " belongs to another version of tsc";
  }
  if (loaded.why.empty())
    loaded.why = std::string("the CUDA module ") + kModuleName + " is not beside the program";
  return loaded;
}

#endif

} // namespace

const CudaModule *load_cuda_module(std::string &why) {
  static const Loaded loaded = load();
  why = loaded.why;
  return loaded.module;
}

std::string cuda_arch(std::string *why) {
  std::string reason, arch;
  if (const CudaModule *module = load_cuda_module(reason)) {
    try {
      arch = module->arch(0);
    } catch (const tsc_engine::Error &error) {
      reason = error.what();
    }
  }
  if (why)
    *why = arch.empty() ? reason : "";
  return arch;
}

std::string native_part(std::string *why) {
  const std::string arch = cuda_arch(why);
  const target::Target *target = arch.empty() ? nullptr : target::nearest_target(arch);
  if (!target) {
    if (why && !arch.empty())
      *why = "the GPU is " + arch;
    return "";
  }
  std::string reason;
  const tsc_engine::CudaPart part = load_cuda_module(reason)->part(0);
  return target::part_of(*target, {part.multiprocessors, part.bandwidth, part.l2_bytes});
}

std::string cuda_device_name() {
  std::string why;
  if (cuda_arch(&why).empty())
    return "";
  return load_cuda_module(why)->device_name(0);
}

bool cuda_available(std::string *why) { return !cuda_arch(why).empty(); }

} // namespace tsc::runtime
