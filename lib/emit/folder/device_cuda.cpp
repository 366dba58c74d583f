// A GPU as the model's device. The library carries its kernels: as images that nvcc made
// (TSC_EMBEDDED_IMAGES), else as text that NVRTC compiles for the GPU present when weights are
// loaded.
#include "engine/cuda_communicator.h"
#include "engine/cuda_device.h"
#include "engine/model_hooks.h"

#include <cstring>

#ifndef TSC_EMBEDDED_IMAGES
#include "engine/cuda_compiler.h"
#include <future>
#endif

/// The bytes of a file as name .. name_end, followed by a zero.
#define TSC_EMBED(name, path)                                                                      \
  __asm__(".pushsection .rodata\n.balign 64\n"                                                     \
          ".globl " #name "\n.hidden " #name "\n" #name ":\n"                                      \
          ".incbin \"" path "\"\n"                                                                 \
          ".globl " #name "_end\n.hidden " #name "_end\n" #name "_end:\n"                          \
          ".byte 0\n.popsection\n");                                                               \
  extern "C" __attribute__((visibility("hidden"))) const char name[];                              \
  extern "C" __attribute__((visibility("hidden"))) const char name##_end[];

#ifdef TSC_EMBEDDED_IMAGES
#define TSC_UNIT_FILE(number)                                                                      \
  TSC_EMBED(tsc_image_##number, TSC_IMAGE_FOLDER "/unit_" #number ".fatbin")
#include "kernels/kernels.def"
#undef TSC_UNIT_FILE
#else
#define TSC_KERNEL_FILE(name) TSC_EMBED(tsc_text_##name, TSC_MODEL_FOLDER "/kernels/" #name ".cu")
#define TSC_UNIT_FILE(number)                                                                      \
  TSC_EMBED(tsc_unit_##number, TSC_MODEL_FOLDER "/kernels/units/unit_" #number ".cu")
#define TSC_PRELUDE(name) TSC_EMBED(tsc_prelude_##name, TSC_MODEL_FOLDER "/prelude/" #name ".h")
#include "kernels/kernels.def"
#undef TSC_KERNEL_FILE
#undef TSC_UNIT_FILE
#undef TSC_PRELUDE
#endif

namespace tsc_engine {
namespace {

#ifndef TSC_EMBEDDED_IMAGES
/// One cubin per unit of the plan, compiled side by side.
std::vector<std::vector<char>> compile_units(int device, size_t plan) {
  const std::vector<CudaHeader> headers = {
#define TSC_KERNEL_FILE(name) {#name ".cu", tsc_text_##name},
#define TSC_PRELUDE(name) {#name ".h", tsc_prelude_##name},
#include "kernels/kernels.def"
#undef TSC_KERNEL_FILE
#undef TSC_PRELUDE
  };
  const std::string arch = cuda_arch(device);
  std::vector<std::future<std::vector<char>>> pending;
#define TSC_UNIT(plan_number, number)                                                              \
  if (plan == plan_number)                                                                         \
    pending.push_back(std::async(std::launch::async, [&] {                                         \
      return compile_cubin("unit_" #number ".cu", tsc_unit_##number, headers, arch);               \
    }));
#include "kernels/kernels.def"
#undef TSC_UNIT
  std::vector<std::vector<char>> cubins;
  for (std::future<std::vector<char>> &cubin : pending)
    cubins.push_back(cubin.get());
  return cubins;
}
#endif

} // namespace

Plan model_plan() { return Plan::cuda; }
const char *model_device_name() { return "cuda"; }

Arch model_device_arch(int index) { return {cuda_arch(index), cuda_shared_bytes(index)}; }

std::shared_ptr<Device> open_model_device(int index, size_t plan) {
  CudaDeviceOptions options;
  options.device_index = index;
  (void)plan; // a program may have no kernels
#define TSC_KERNEL(plan_number, name)                                                              \
  if (plan == plan_number)                                                                         \
    options.kernels.push_back(#name);
#include "kernels/kernels.def"
#undef TSC_KERNEL
#ifdef TSC_EMBEDDED_IMAGES
#define TSC_UNIT(plan_number, number)                                                              \
  if (plan == plan_number)                                                                         \
    options.images.push_back(                                                                      \
        {tsc_image_##number, static_cast<size_t>(tsc_image_##number##_end - tsc_image_##number)});
#include "kernels/kernels.def"
#undef TSC_UNIT
#else
  const std::vector<std::vector<char>> cubins = compile_units(index, plan);
  for (const std::vector<char> &cubin : cubins)
    options.images.push_back({cubin.data(), cubin.size()});
#endif
  return make_cuda_device(options);
}

std::unique_ptr<Groups> connect_model_group(int index, const ModelGroup &group) {
  CudaGroupsOptions options;
  options.device_index = index;
  options.timeout_seconds = group.timeout_seconds;
  CudaGroup own;
  own.names = {""};
  own.rank = group.rank;
  own.ranks = group.ranks;
  own.communicator = group.communicator;
  if (group.id != nullptr)
    std::memcpy(own.id.bytes, group.id, sizeof own.id.bytes);
  options.groups.push_back(std::move(own));
  return make_cuda_groups(options);
}

void make_model_communicator_id(void *id) {
  static_assert(sizeof(NcclId) == TSC_COMMUNICATOR_ID_BYTES);
  const NcclId made = make_nccl_id();
  std::memcpy(id, made.bytes, sizeof made.bytes);
}

} // namespace tsc_engine
