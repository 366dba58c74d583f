// Libraries of the CUDA toolkit that are loaded when first needed: what calls none of their
// functions needs none of them to start, and cuBLASLt alone has 540 MB.
#pragma once

#include "engine/device.h"

#include <string>
#include <vector>

namespace tsc_engine {

/// A library that stays loaded for good.
class CudaLibrary {
public:
  /// `name` without lib and .so ("nvrtc"), of this major version. Errors: Error (device) saying
  /// what was tried.
  CudaLibrary(const std::string &name, int major);
  /// The file `path` and no other.
  explicit CudaLibrary(const std::string &path);
  /// Loads what lies beside this library under a name that begins with `prefix` and that it opens
  /// by name itself, where the loader's paths may not lead. What cannot be loaded is left to its
  /// report.
  void load_beside(const std::string &prefix) const;
  /// Errors: Error (device) if there is no such function.
  template <class Function> void find(Function &function, const char *symbol) const {
    function = reinterpret_cast<Function>(address(symbol));
  }

private:
  void *address(const char *symbol) const;
  void open(const std::vector<std::string> &places);
  std::string name_;
  void *handle_ = nullptr;
};

} // namespace tsc_engine
