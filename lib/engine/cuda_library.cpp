#include "engine/cuda_library.h"

#include <dlfcn.h>
#include <link.h>

#include <filesystem>

namespace tsc_engine {

CudaLibrary::CudaLibrary(const std::string &name, int major) : name_(name) {
  const std::string file = "lib" + name + ".so." + std::to_string(major);
  // By the loader's paths first, the caller's RUNPATH among them, then where toolkits are
  // installed.
  open({file, "/usr/local/cuda/lib64/" + file, "/usr/local/cuda/targets/x86_64-linux/lib/" + file,
        "/usr/local/cuda/lib/" + file});
}

CudaLibrary::CudaLibrary(const std::string &path) : name_(path) { open({path}); }

void CudaLibrary::open(const std::vector<std::string> &places) {
  std::string why;
  for (const std::string &path : places) {
    handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_)
      return;
    const char *text = dlerror();
    if (why.empty() && text)
      why = text;
  }
  throw Error(Status::device, "CUDA's library " + places[0] + " cannot be loaded (" + why +
                                  "); install the CUDA toolkit, or set LD_LIBRARY_PATH");
}

void CudaLibrary::load_beside(const std::string &prefix) const {
  link_map *map = nullptr;
  if (dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || !map)
    return;
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(map->l_name).parent_path();
  for (const auto &entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.compare(0, prefix.size(), prefix) == 0)
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
  }
}

void *CudaLibrary::address(const char *symbol) const {
  void *found = dlsym(handle_, symbol);
  if (!found)
    throw Error(Status::device, "CUDA's library " + name_ + " has no function " + symbol);
  return found;
}

} // namespace tsc_engine
