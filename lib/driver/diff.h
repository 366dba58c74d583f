// What differs between two programs.
#pragma once

#include "driver/shapes.h"
#include "program/program.h"

#include <string>
#include <vector>

namespace tsc::driver {

/// Of one run; steps of weights alone, which no run repeats, left out.
struct ProgramTotals {
  size_t kernels = 0, launches = 0, library_calls = 0, steps = 0;
  double bytes = 0;       // read and written by kernels and library calls
  double nanoseconds = 0; // estimated, for the program's architecture
};
ProgramTotals totals_of(const program::Program &program, const Shapes &shapes);

struct KernelChange {
  /// Null: was not there, or is gone. Both: other text for the same nodes.
  const program::Kernel *before = nullptr, *after = nullptr;
};
struct ProgramDiff {
  ProgramTotals before, after;
  size_t same = 0; // kernels of the same text
  std::vector<KernelChange> changes;
};
/// Both programs outlive what is returned. Sizes that `shapes` does not give are small ones of
/// their range.
ProgramDiff diff(const program::Program &before, const program::Program &after,
                 const Shapes &shapes);

} // namespace tsc::driver
