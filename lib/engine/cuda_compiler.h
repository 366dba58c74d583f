// NVRTC, loaded when first used: a build that never compiles needs no NVRTC to start.
#pragma once

#include <iterator>
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

/// NVRTC's options for every architecture. Contraction is stated, not left to a default;
/// -ffp-contract=off is what the host says.
inline constexpr const char *kCudaOptions[] = {"--std=c++17", "--fmad=true",
                                               "--generate-line-info"};

/// The options that compile_cubin compiles for `arch` with.
inline std::vector<std::string> cuda_compiler_options(const std::string &arch) {
  std::vector<std::string> options(std::begin(kCudaOptions), std::end(kCudaOptions));
  // The variant with what only this architecture has (wgmma): nothing else runs an sm_90 image.
  options.push_back("--gpu-architecture=" + arch + (arch == "sm_90" ? "a" : ""));
  return options;
}

/// What compile_cubin's results depend on besides its arguments, for cache keys: NVRTC's version
/// and options.
std::string cuda_compiler_identity();

} // namespace tsc_engine
