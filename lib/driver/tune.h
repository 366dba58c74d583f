// Times the plans that a program's kernels could have, and says which were fastest.
#pragma once

#include "driver/compile.h"
#include "driver/lock.h"
#include "target/target.h"

#include <functional>

namespace tsc::driver {

struct TuneOptions {
  /// Nanoseconds of each step of a program (of program.steps; 0: a run does not come to it).
  std::function<std::vector<double>(const program::Program &)> time_steps;
  /// Called before each program is timed.
  std::function<void(size_t program, size_t programs)> progress;
};

/// For each kernel whose plan leaves something to choose (codegen::alternatives_of): the planner's
/// numbers, or those that were at least 2% faster twice. Program number i has every kernel's i-th
/// alternative, so that as many programs are timed as the kernel with the most has, and two more:
/// the planner's and the fastest once again, since of many times the least is too small. Kernels
/// that no run comes to (they compute weights) stay as planned; those that share a launch are left
/// out. `compilation` has reached Form::program. device and arch of what is returned are empty.
Lock tune(const Compilation &compilation, const target::Target &target, const TuneOptions &options);

} // namespace tsc::driver
