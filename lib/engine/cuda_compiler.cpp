#include "engine/cuda_compiler.h"

#include "engine/cuda_library.h"

#include <cstdlib>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <nvrtc.h>

namespace tsc_engine {
namespace {

struct Nvrtc {
  decltype(&nvrtcVersion) version;
  decltype(&nvrtcCreateProgram) create;
  decltype(&nvrtcDestroyProgram) destroy;
  decltype(&nvrtcCompileProgram) compile;
  decltype(&nvrtcGetProgramLogSize) log_size;
  decltype(&nvrtcGetProgramLog) log;
  decltype(&nvrtcGetCUBINSize) cubin_size;
  decltype(&nvrtcGetCUBIN) cubin;
  decltype(&nvrtcGetErrorString) error_text;

  Nvrtc() {
    const CudaLibrary library("nvrtc", CUDART_VERSION / 1000);
    library.load_beside("libnvrtc-builtins.so.");
    library.find(version, "nvrtcVersion");
    library.find(create, "nvrtcCreateProgram");
    library.find(destroy, "nvrtcDestroyProgram");
    library.find(compile, "nvrtcCompileProgram");
    library.find(log_size, "nvrtcGetProgramLogSize");
    library.find(log, "nvrtcGetProgramLog");
    library.find(cubin_size, "nvrtcGetCUBINSize");
    library.find(cubin, "nvrtcGetCUBIN");
    library.find(error_text, "nvrtcGetErrorString");
  }
  void check(nvrtcResult result, const char *what) const {
    if (result != NVRTC_SUCCESS)
      throw Error(Status::device, std::string(what) + ": " + error_text(result));
  }
};

const Nvrtc &nvrtc() {
  static const Nvrtc library; // a failure is tried again by the next call
  return library;
}

int major_version() {
  int major = 0, minor = 0;
  nvrtc().check(nvrtc().version(&major, &minor), "nvrtcVersion");
  return major;
}

class Program {
public:
  Program(const std::string &name, const std::string &text,
          const std::vector<CudaHeader> &headers) {
    std::vector<const char *> texts, names;
    for (const CudaHeader &header : headers) {
      texts.push_back(header.text.c_str());
      names.push_back(header.name.c_str());
    }
    nvrtc().check(nvrtc().create(&program_, text.c_str(), name.c_str(),
                                 static_cast<int>(headers.size()), texts.data(), names.data()),
                  "nvrtcCreateProgram");
  }
  ~Program() { nvrtc().destroy(&program_); }
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;
  nvrtcProgram get() const { return program_; }
  std::string log() const {
    size_t size = 0;
    if (nvrtc().log_size(program_, &size) != NVRTC_SUCCESS || size <= 1)
      return "";
    std::string text(size, '\0');
    nvrtc().log(program_, text.data());
    text.resize(size - 1);
    return text;
  }

private:
  nvrtcProgram program_ = nullptr;
};

} // namespace

std::vector<char> compile_cubin(const std::string &name, const std::string &text,
                                const std::vector<CudaHeader> &headers, const std::string &arch) {
  const Program program(name, text, headers);
  std::vector<std::string> texts = cuda_compiler_options(arch);
  // Without the declarations of textures and of the device runtime, which no kernel uses: reading
  // those takes longer (70 of 140 ms) than compiling a small kernel.
  constexpr int kFirstTried = 13;
  if (major_version() >= kFirstTried)
    texts.push_back("--minimal");
  std::vector<const char *> options;
  options.reserve(texts.size());
  for (const std::string &option : texts)
    options.push_back(option.c_str());
  const nvrtcResult result =
      nvrtc().compile(program.get(), static_cast<int>(options.size()), options.data());
  if (result != NVRTC_SUCCESS)
    throw Error(Status::device, "NVRTC could not compile " + name + " for " + arch + " (" +
                                    nvrtc().error_text(result) + "):\n" + program.log());
  size_t size = 0;
  nvrtc().check(nvrtc().cubin_size(program.get(), &size), "nvrtcGetCUBINSize");
  std::vector<char> cubin(size);
  nvrtc().check(nvrtc().cubin(program.get(), cubin.data()), "nvrtcGetCUBIN");
  return cubin;
}

std::string cuda_compiler_identity() {
  int major = 0, minor = 0;
  nvrtc().check(nvrtc().version(&major, &minor), "nvrtcVersion");
  std::string identity = "NVRTC " + std::to_string(major) + "." + std::to_string(minor);
  // The file's full name has the patch release too.
  Dl_info info = {};
  if (dladdr(reinterpret_cast<void *>(nvrtc().version), &info) != 0 && info.dli_fname != nullptr) {
    char *real = realpath(info.dli_fname, nullptr);
    identity += std::string(" ") + (real != nullptr ? real : info.dli_fname);
    std::free(real);
  }
  for (const char *option : kCudaOptions)
    identity += std::string(" ") + option;
  return identity;
}

} // namespace tsc_engine
