// The door to CUDA: libtsc_cuda.so, loaded when first used, so that tsc starts where there is no
// CUDA.
#pragma once

#include "engine/cuda_communicator.h"
#include "engine/cuda_compiler.h"
#include "engine/cuda_device.h"

#include <memory>
#include <string>
#include <vector>

namespace tsc::runtime {

/// What the module exports as tsc_cuda_module(). Its functions are those of engine/cuda_device.h,
/// engine/cuda_compiler.h and engine/cuda_communicator.h; errors leave as tsc_engine::Error.
struct CudaModule {
  int version;
  std::unique_ptr<tsc_engine::CudaDevice> (*make_device)(const tsc_engine::CudaDeviceOptions &);
  std::string (*arch)(int device_index);
  std::string (*device_name)(int device_index);
  std::vector<char> (*compile_cubin)(const std::string &name, const std::string &text,
                                     const std::vector<tsc_engine::CudaHeader> &headers,
                                     const std::string &arch);
  std::string (*compiler_identity)();
  void (*make_context)(int device_index);
  std::unique_ptr<tsc_engine::Groups> (*make_groups)(const tsc_engine::CudaGroupsOptions &);
  tsc_engine::NcclId (*make_nccl_id)();
  tsc_engine::CudaPart (*part)(int device_index);
};
inline constexpr int kCudaModuleVersion = 6;

/// The module, which stays loaded; null where it is not there or cannot be loaded, and why.
const CudaModule *load_cuda_module(std::string &why);

} // namespace tsc::runtime
