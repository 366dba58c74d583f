// Which kernels a schedule's groups became.
#pragma once

#include "driver/compile.h"

#include <cstdint>
#include <map>
#include <vector>

namespace tsc::driver {

/// For every group of compilation.schedule.groups, the kernels (positions in program.kernels) that
/// its launches run, in order: none for library calls and nodes that only allocate, several where a
/// group takes several launches. Found by what launches write, not by counting. Needs
/// Form::program.
std::vector<std::vector<uint32_t>> kernels_of_groups(const Compilation &compilation);

/// The same for compilation.schedule and the schedules of its subgraphs, by their address.
using GroupKernels = std::map<const scheduler::Schedule *, std::vector<std::vector<uint32_t>>>;
GroupKernels kernels_of_all_groups(const Compilation &compilation);

} // namespace tsc::driver
