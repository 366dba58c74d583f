// What was found out about kernels by timing them, as a file: plans that compiling then takes
// without a GPU.
#pragma once

#include "codegen/tuning.h"

#include <string>
#include <utility>
#include <vector>

namespace tsc::driver {

/// A kernel whose plan left something to choose, and what it took.
struct LockedKernel {
  std::string key;                 // codegen::TunableKernel
  std::string kernel;              // its name as planned, for readers
  std::string plan;                // the planner's, in words
  codegen::PlanChoice choice;      // the planner's, or what was faster
  double planned_nanoseconds = 0;  // of the planner's
  double expected_nanoseconds = 0; // of the choice
  /// What tune() timed besides the planner's, in nanoseconds; no part of a lock's text.
  std::vector<std::pair<codegen::PlanChoice, double>> tried;
};

struct Lock {
  std::string device; // that they were timed on, with its driver
  std::string arch;   // that they were planned for
  std::vector<LockedKernel> kernels;
};

/// JSON, a line a kernel: what changed is what `diff` says changed.
std::string to_text(const Lock &lock);
/// Throws UserError (bad_input) TSC-C020 for what to_text did not write.
Lock parse_lock(const std::string &text, const std::string &file);
/// Throws UserError (bad_input) TSC-C020, also if the file cannot be read.
Lock read_lock(const std::string &path);

} // namespace tsc::driver
