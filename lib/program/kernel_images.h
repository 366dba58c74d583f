// Compiled code of a program's kernels, as data.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace tsc::program {

/// One image a unit of kernels, in the order of the units of packages (runtime/kernel_units.h):
/// shared objects of the host, or cubins.
struct KernelImages {
  std::string target;   // "x86_64-v3" and the like, or "sm_90"; "": there are none
  std::string identity; // content address of the texts that they were compiled from
  std::vector<std::string_view> images;
  std::shared_ptr<void> owner; // keeps them alive
};

} // namespace tsc::program
