// Kernel texts -> functions of this process, with whatever C++ compiler the machine has.
#pragma once

#include "engine/host_device.h"
#include "program/program.h"
#include "runtime/content_cache.h"
#include "runtime/session.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace tsc::runtime {

struct HostCompiler {
  std::vector<std::string> command; // path first; CXX may bring arguments
  std::string identity;             // what its results depend on: path and version
  bool is_clang = false;
};
/// $CXX, g++, clang++, c++, in this order. Errors: UserError (device) TSC-R010 with what was tried.
HostCompiler find_host_compiler();
/// Options that the kernels of `plan` are compiled with on this machine.
std::vector<std::string> kernel_flags(const HostCompiler &compiler, Plan plan);

/// Loaded kernels; entries[i] is kernel i's and lives as long as this.
struct HostKernels {
  std::vector<const TcKernelEntry *> entries;
  std::vector<std::shared_ptr<void>> libraries;
  size_t compiled = 0, from_cache = 0; // kernels
};
/// Compiles all kernels of `program` under `plan`, about 16 to a translation unit, in parallel.
/// Errors: UserError (device) TSC-R010 no compiler, TSC-R011 it failed, TSC-R012 its result cannot
/// be loaded.
HostKernels load_host_kernels(const program::Program &program, Plan plan, ContentCache *cache);
/// The same from images of compile_host_images, without a compiler; nothing, and `why`, if they are
/// for another processor, another plan, other kernels, or cannot be loaded.
std::optional<HostKernels> load_host_images(const program::Program &program, Plan plan,
                                            const program::KernelImages &images, std::string &why);

} // namespace tsc::runtime
