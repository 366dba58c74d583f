// Kernels -> translation units, for the host's compiler and for NVRTC alike.
#pragma once

#include "program/program.h"
#include "runtime/session.h"

#include <string>
#include <vector>

namespace tsc::runtime {

struct KernelUnit {
  std::vector<uint32_t> kernels; // of the program; each name once over all units
  std::string text;              // includes the prelude
};
/// Spreads the kernels over the cores, 16 to a unit at most: a unit costs 20 ms by itself, a kernel
/// 10 to 20 more. Precondition: kernels of one name have one text.
std::vector<KernelUnit> make_kernel_units(const program::Program &program, Plan plan);
/// The same in units of a fixed size: those of a package, which are the same on every machine.
std::vector<KernelUnit> make_package_units(const program::Program &program, Plan plan);
/// Content address of what code of these units is made of: their texts and the headers that they
/// include.
std::string identity_of(const std::vector<KernelUnit> &units);

} // namespace tsc::runtime
