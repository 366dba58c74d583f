// libtsc_cuda.so: what cuda_module.h declares.
#include "runtime/cuda_module.h"

extern "C" __attribute__((visibility("default"))) const tsc::runtime::CudaModule *
tsc_cuda_module() {
  static const tsc::runtime::CudaModule module = {
      tsc::runtime::kCudaModuleVersion, &tsc_engine::make_cuda_device,
      &tsc_engine::cuda_arch,           &tsc_engine::cuda_device_name,
      &tsc_engine::compile_cubin,       &tsc_engine::cuda_compiler_identity,
      &tsc_engine::make_cuda_context,   &tsc_engine::make_cuda_groups,
      &tsc_engine::make_nccl_id,        &tsc_engine::cuda_part};
  return &module;
}
