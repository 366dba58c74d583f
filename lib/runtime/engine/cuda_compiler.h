// NVRTC, loaded when first used: a build that never compiles needs no NVRTC to start.
#pragma once

#include <string>
#include <vector>

namespace tsc_engine {

/// A file that kernel texts include by this name.
struct CudaHeader {
  std::string name, text;
};

/// Compiles one translation unit for `arch` ("sm_90") and gives its cubin. Thread-safe; takes about
/// 50 ms and 10 ms a kernel. Errors: Error (device) with NVRTC's log, or when NVRTC cannot be
/// loaded.
std::vector<char> compile_cubin(const std::string &name, const std::string &text,
                                const std::vector<CudaHeader> &headers, const std::string &arch);

/// What compile_cubin's results depend on besides its arguments, for cache keys: NVRTC's version
/// and options.
std::string cuda_compiler_identity();

} // namespace tsc_engine
