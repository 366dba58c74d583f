// An NVIDIA GPU as a device: kernels from images (cubin or PTX) that were embedded, cached or
// compiled by NVRTC just now; matrix products by cuBLASLt.
#pragma once

#include "engine/device.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tsc_engine {

/// A cubin, fatbin or zero-terminated PTX; copied when loaded.
struct CudaImage {
  const void *data = nullptr;
  size_t size = 0;
};

struct CudaDeviceOptions {
  int device_index = 0;
  /// Kernel number i has this name, in whichever image has it. All images are loaded.
  std::vector<std::string> kernels;
  std::vector<CudaImage> images;
};

class CudaDevice : public Device {
public:
  /// Milliseconds of each of `repeats` calls of run(stream), measured by events after `warm_ups`
  /// calls that are not. The L2 cache is overwritten before each measurement.
  virtual std::vector<double> time(const std::function<void(Stream)> &run, int repeats,
                                   int warm_ups) = 0;
  /// A stream of this device's own, for callers that have none.
  virtual Stream stream() const = 0;
};

/// Errors: Error (device) with the driver's message: no driver, no GPU, an image for another GPU.
std::unique_ptr<CudaDevice> make_cuda_device(const CudaDeviceOptions &options);

/// "sm_90" of a GPU of this machine. Errors: Error (device) "no CUDA driver ..." or "no CUDA GPU
/// ...".
std::string cuda_arch(int device_index);
/// What that GPU has: multiprocessors; bytes of memory a second, of clock and width, 0 where the
/// driver tells neither; bytes of second-level cache. Errors: as cuda_arch.
struct CudaPart {
  int multiprocessors = 0;
  double bandwidth = 0;
  int l2_bytes = 0;
};
CudaPart cuda_part(int device_index);
/// "NVIDIA H100, CUDA 13.0" of that GPU and its driver. Errors: as cuda_arch.
std::string cuda_device_name(int device_index);
/// Makes the context of that GPU, which takes tenths of a second, so that later calls find it; may
/// run beside anything else. Errors: as cuda_arch.
void make_cuda_context(int device_index);
/// Bytes of shared memory that a block of that GPU may ask for.
int cuda_shared_bytes(int device_index);

} // namespace tsc_engine
